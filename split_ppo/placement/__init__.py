"""Who sits where: the planner, the checks and the plan they share. Pure throughout."""
