"""The `motet` command: one module per subcommand, each with HELP, EXAMPLES, add_arguments() and run()."""
