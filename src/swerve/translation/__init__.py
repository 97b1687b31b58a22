"""Translation of pictures into other conditions by trained networks: MUNIT and UNIT."""
