"""The paper, reproduced: the grid of runs, their measurements, tables and figures from results files."""
