"""The TCP host of the overlay's nodes: frames, certificates, connections, and processes on this machine."""
