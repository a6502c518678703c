package counts
