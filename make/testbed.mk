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

# On clusters of our own, tests with and without real nodes run beside each other: both mostly wait.
CLUSTER_TESTS := $(BIN)/pytest tests/cluster tests/chaos --durations=25
.PHONY: test-cluster
test-cluster: install ## The tests that need Kubernetes; KUBECONFIG=<file> runs them on a cluster you have
	@$(if $(KUBECONFIG),,$(TESTBED) build)
	@$(if $(KUBECONFIG),$(CLUSTER_TESTS) -m 'not slow' --cluster-kubeconfig "$(KUBECONFIG)")
	@$(if $(KUBECONFIG),,$(MAKE) --no-print-directory -k -j 2 test-cluster-without-nodes test-cluster-with-nodes)

.PHONY: test-cluster-without-nodes test-cluster-with-nodes
test-cluster-without-nodes:
	@set -o pipefail; $(CLUSTER_TESTS) -m 'not slow and not nodes' 2>&1 | sed -u 's/^/without nodes | /'
test-cluster-with-nodes:
	@set -o pipefail; $(CLUSTER_TESTS) -m 'not slow and nodes' 2>&1 | sed -u 's/^/with nodes    | /'

# What `make test` has left: tests on real nodes wait for a good part of their time, so everything else that takes long runs beside them.
.PHONY: test-side-by-side test-cluster-then-trainer
test-side-by-side: install install-trainer-cpu install-browser
	@$(TESTBED) build
	@$(MAKE) --no-print-directory -k -j 2 test-cluster-with-nodes test-cluster-then-trainer
test-cluster-then-trainer:
	@set -o pipefail; failed=0; $(MAKE) --no-print-directory test-cluster-without-nodes || failed=1; \
		$(MAKE) --no-print-directory test-trainer 2>&1 | sed -u 's/^/trainer       | /' || failed=1; exit $$failed

.PHONY: test-cluster-slow
test-cluster-slow: install ## The long forms: Kueue (built first, 5 minutes), Go from PyPI
	@$(TESTBED) build pause kube kuberay kueue
	@$(BIN)/pytest tests/cluster -m slow
