"""The process that has the network and nothing else, and how others keep one."""
