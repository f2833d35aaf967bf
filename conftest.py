"""Without torch the examples of what needs it are not collected; tests say themselves what they skip and why."""

from importlib.util import find_spec

NEED_TORCH = ("torch", "torch_jobs", "torch_layers", "torch_processes", "torch_profile", "torch_rules",
              "torch_shift", "torch_worker")  # fmt: skip
collect_ignore = [] if find_spec("torch") else [f"lpkit/interop/{name}.py" for name in NEED_TORCH]
