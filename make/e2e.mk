# The mission whole, on two real nodes: about an hour on 2 cores. A part of it: make e2e E2E='-k losses'
.PHONY: e2e
e2e: install install-trainer-cpu ## The mission on two real nodes, with what it saw kept; results go to docs/e2e.md
	@$(TESTBED) build pause kube kuberay kueue
	@$(BIN)/pytest tests/e2e -v --record docs/e2e.md $(E2E)
