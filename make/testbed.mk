# A real Kubernetes on this machine (docs/testbed.md): for tests, and for people who want to look around.
TESTBED := PYTHONPATH=tests $(BIN)/python -m testbed
NODES ?= 0
FAKE_NODES ?= 0
NAME ?= dev

.PHONY: cluster-up
cluster-up: install ## Start a Kubernetes with KubeRay here: [NODES=2] [FAKE_NODES=100] [KUEUE=1]
	@$(TESTBED) up --name $(NAME) --nodes $(NODES) --fake-nodes $(FAKE_NODES) $(if $(KUEUE),--kueue)

.PHONY: cluster-down
cluster-down: install ## End it, and remove whatever killed processes left behind
	@$(TESTBED) down --name $(NAME)

.PHONY: cluster-node
cluster-node: install ## Do something to one of its nodes: NODE=node-1 DO=cut-off|restore|kill|start
	@$(TESTBED) node $(NODE) $(DO) --name $(NAME)

.PHONY: cluster-build
cluster-build: install ## Install the packages it needs and build all of it (about 14 minutes on 2 cores, once per machine)
	@$(TESTBED) build

# Only when asked for by name: a KUBECONFIG that happens to be set must not send `make test` to somebody's cluster.
test: KUBECONFIG :=

.PHONY: test-cluster
test-cluster: install ## The tests that need Kubernetes; KUBECONFIG=<file> runs them on a cluster you have
	@$(if $(KUBECONFIG),,$(TESTBED) build)
	@$(BIN)/pytest tests/cluster tests/chaos -m 'not slow' --durations=25 $(if $(KUBECONFIG),--cluster-kubeconfig "$(KUBECONFIG)",-n 2 --dist loadgroup)

.PHONY: test-cluster-slow
test-cluster-slow: install ## The long forms: Kueue (built first, 5 minutes), Go from PyPI
	@$(TESTBED) build pause kube kuberay kueue
	@$(BIN)/pytest tests/cluster -m slow
