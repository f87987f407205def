"""AdamW over the trainable parameters, its learning rate as a function of updates made, and the guarded update.

An update either happens completely, from finite gradients, or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from art_core.errors import InputError, NonFiniteError

from .config import TrainingConfig

__all__ = ["Optimizer", "learning_rate"]


def learning_rate(config: TrainingConfig, updates: int) -> float:
    """The rate of the update that follows ``updates`` earlier ones (T24: it counts optimizer updates, nothing else)."""
    if updates < config.warmup_updates:
        return config.learning_rate * (updates + 1) / config.warmup_updates
    if config.schedule == "constant" or config.total_updates is None:
        return config.learning_rate
    left = max(0, config.total_updates - updates)
    return config.learning_rate * left / (config.total_updates - config.warmup_updates)


class Optimizer:
    """AdamW with float32 parameters, global-norm clipping and a guard against non-finite gradients.

    Trainable parameters stored in a smaller type are converted to float32 in place, so that the optimizer works on the
    parameters themselves and no second copy can drift from them.
    """

    def __init__(self, parameters: Mapping[str, torch.nn.Parameter], config: TrainingConfig) -> None:
        if not parameters:
            raise InputError("the model has no parameter that requires a gradient; attach a LoRA adapter first")
        for parameter in parameters.values():
            parameter.data = parameter.data.float()
        self._parameters = dict(parameters)
        self._config = config
        self._adam = torch.optim.AdamW(
            list(self._parameters.values()),
            lr=config.learning_rate,
            betas=config.betas,
            weight_decay=config.weight_decay,
        )
        self.updates = 0
        """Updates made so far."""

    def zero_grad(self) -> None:
        """Forget all gradients."""
        self._adam.zero_grad(set_to_none=True)

    def update(self) -> tuple[float, float]:
        """One update from the accumulated gradients, which are then forgotten.

        Returns:
            The L2 norm of the gradient before clipping, and the learning rate used.

        Raises:
            NonFiniteError: the norm is NaN or infinite; no parameter was changed.
        """
        gradients = [p.grad for p in self._parameters.values() if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        if not torch.isfinite(norm):
            bad = [n for n, p in self._parameters.items() if p.grad is not None and not torch.isfinite(p.grad).all()]
            raise NonFiniteError(f"the gradient norm is {float(norm)}; first such parameters: {bad[:3]}")
        torch.nn.utils.clip_grads_with_norm_(self._parameters.values(), self._config.max_grad_norm, norm)
        rate = learning_rate(self._config, self.updates)
        for group in self._adam.param_groups:
            group["lr"] = rate
        self._adam.step()
        self.zero_grad()
        self.updates += 1
        return float(norm), rate

    def tensors(self) -> dict[str, torch.Tensor]:
        """Copies of AdamW's moments and step counters, named ``<parameter>:<moment>``."""
        return {
            f"{name}:{key}": value.detach().clone()
            for name, parameter in self._parameters.items()
            for key, value in self._adam.state.get(parameter, {}).items()
        }

    def load(self, tensors: Mapping[str, torch.Tensor], updates: int) -> None:
        """Continue from what ``tensors()`` returned after ``updates`` updates.

        Raises:
            InputError: a name or a shape belongs to another model; nothing was changed.
        """
        state: dict[str, dict[str, torch.Tensor]] = {}
        for full_name, value in tensors.items():
            name, _, key = full_name.rpartition(":")
            parameter = self._parameters.get(name)
            if parameter is None or (value.dim() > 0 and value.shape != parameter.shape):
                raise InputError(f"optimizer state {full_name!r} of shape {tuple(value.shape)} does not fit this model")
            state.setdefault(name, {})[key] = value
        self._adam.state.clear()
        for name, entries in state.items():
            parameter = self._parameters[name]
            self._adam.state[parameter] = {
                key: value.clone() if key == "step" else value.to(parameter.device, copy=True)
                for key, value in entries.items()
            }
        self.updates = updates
