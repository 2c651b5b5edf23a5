# What one does here. How it is done stands in scripts/; Rust and C are built by cargo.
.DEFAULT_GOAL := help
.PHONY: help demo test fuzz games lint prove bench deb site wheel python release

help: ## list these targets
	@sed -n 's/^\([a-z]*\): ## /make \1\t/p' Makefile | expand -t 14

demo: ## set everything up and show a legacy guest's share without and with Undercurrent
	@scripts/demo

test: ## set everything up and run all tests; the live ones among them need root
	@scripts/test

fuzz: ## fuzz with coverage, SECONDS=600 a target, and print the number of runs
	@scripts/bootstrap test
	@scripts/fuzz --seconds $(or $(SECONDS),600)

lint: ## check format, lints and the rules of the house
	@scripts/lint

prove: ## prove properties of the core with CBMC, for all inputs, laws and profiles
	@scripts/prove

bench: ## measure what a packet costs, in the simulator and on a port, and the simulator beside others
	@scripts/bench

games: ## search 4 h for plans by which a guest that breaks the rules of TCP gains from guarded ports
	@scripts/games

deb: ## build the Debian packages: out/undercurrent_VERSION_ARCHITECTURE.deb, and -bench
	@scripts/deb

site: ## build the book of the documents: out/site/index.html
	@scripts/site

wheel: ## build the wheel of the Python package: out/undercurrent-VERSION-….whl
	@scripts/wheel

python: ## build the Python package as tests are built, and run its tests, on Ray too
	@scripts/wheel --test

release: ## build all that is shipped into out/, with SHA256SUMS; refuse what a second build makes otherwise
	@scripts/release
