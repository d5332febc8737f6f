"""Facts about one rank, and runs as ranks: phases, owners, categories, what dangles."""
