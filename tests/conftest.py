"""Fixtures every test may ask for; those that need Kubernetes come from the test bed."""

pytest_plugins = ("testbed.plugin",)
