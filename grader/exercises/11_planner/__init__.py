"""Unit 11: a planner's memory, traffic, seconds and choice of a layout."""

ORDER = (
    "device_memory", "device_traffic", "step_seconds", "fitted_share", "choose_layout",
)
