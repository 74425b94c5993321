"""Hidden noise (Lecomte et al. 2024, §3, App. C): moments, implicit regulariser, effective potential."""
