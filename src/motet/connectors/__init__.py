"""Sources that append events to a lake and sinks that publish its notifications: files, directories, NATS."""
