"""The four programs of the fleet; each folder is a package, a command and a container."""
