"""`python -m split_ppo` is `split-ppo`."""

from split_ppo.cli.main import main

if __name__ == "__main__":
    main()
