"""Why a notification came about, and why an event led to none: accounts of what the language's definitions say."""
