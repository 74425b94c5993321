"""The exact expected loss of networks whose hidden neurons bend, with a linear readout."""
