"""Float64 vectors of the peers' update rules, and the script that writes them without the core."""
