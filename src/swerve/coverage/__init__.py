"""How much of a network a set of inputs has made use of: neuron coverage and its kin."""
