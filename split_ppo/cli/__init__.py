"""The command line. `main` knows the commands by name only; each is imported when it is called."""
