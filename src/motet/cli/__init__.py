"""The `motet` command: one module per subcommand, which parses arguments and prints results."""
