"""From subscriptions to what the engine runs. No I/O."""
