"""One policy per file: when it applies is decided in `plan`, what it does is decided here. All pure."""
