"""What is wrong, wasteful or odd about subscriptions that are allowed: findings with a reason and advice."""
