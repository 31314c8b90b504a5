# The browser that looks at the report of `split-ppo compare` (100 MB of Debian packages); without one that test is skipped.
BROWSERS := chromium-headless-shell chromium chromium-browser google-chrome
.PHONY: install-browser
install-browser: ## A headless browser for the test of the HTML report, where apt-get may install one
	@command -v $(BROWSERS) >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && echo "installing a headless chromium with apt-get" && apt-get update -qq >/dev/null 2>&1 \
	  && { DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium-headless-shell >/dev/null 2>&1 \
	    || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null 2>&1; }; } \
	  || echo "No browser here and none could be installed: the test of the HTML report will be skipped."

test-trainer: install-browser

BENCH_FOLDER ?= runs/bench-trainer
ROUNDS ?= 3
.PHONY: bench-trainer
bench-trainer: install-trainer-cpu ## What split placement is worth here: every overlap level and Colocated, pinned, in rounds (an hour on 2 cores)
	@$(BIN)/python benchmarks/trainer.py --folder $(BENCH_FOLDER) --rounds $(ROUNDS)
