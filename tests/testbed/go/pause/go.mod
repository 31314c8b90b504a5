module split-ppo/testbed/pause

go 1.26.0
