# What the operator costs, and what it stands.
.PHONY: bench-operator
bench-operator: install ## Measure the operator beside KubeRay's RayJob; writes benchmarks/results/operator.json (about 15 minutes on 2 cores)
	@$(TESTBED) build pause kube kuberay kwok
	@PYTHONPATH=tests $(BIN)/python benchmarks/operator_costs.py $(BENCH)

.PHONY: chaos
chaos: install ## The long form of tests/chaos, with another seed each time; SPLIT_PPO_CHAOS_SEED=<n> repeats one that failed
	@$(TESTBED) build
	@SPLIT_PPO_CHAOS_SEED=$${SPLIT_PPO_CHAOS_SEED:-$$(od -An -N4 -tu4 /dev/urandom)} SPLIT_PPO_CHAOS_SPECS=20000 \
		$(BIN)/pytest tests/unit/test_generated_specs.py tests/chaos --durations=25 -o timeout=1800 $(CHAOS)
