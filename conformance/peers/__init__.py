"""Other projects' Muon implementations, as installed, run on given parameters and gradients."""
