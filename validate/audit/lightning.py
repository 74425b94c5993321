"""A callback for PyTorch Lightning that calls a training log; Lightning is not imported here."""

import operator
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lightning_callback(log: Any, name: str = "") -> Any:
    """Return a callback for PyTorch Lightning that calls `log` after each batch and after training.

    The log is called with the model, the step and the batch's loss. The numbers of a record that it returns,
    such as the loss and the best known one, go to the trainer's loggers. The callback is a ``Callback`` of
    Lightning if that is imported, else an object with the same two methods. Only the first of several
    processes logs.

    Parameters
    ----------
    log : TrainingLog
        Result of `watch`.
    name : str, optional
        Attribute of the LightningModule that is the model to log; by default the LightningModule itself.

    Examples
    --------
    >>> callback = lightning_callback(print, "model")
    >>> callable(callback.on_train_batch_end), callable(callback.on_train_end)
    (True, True)
    """
    loaded = [sys.modules[at] for at in ("lightning.pytorch", "pytorch_lightning") if at in sys.modules]
    base: Any = loaded[0].Callback if loaded else object
    model_of: Callable[[Any], Any] = operator.attrgetter(name) if name else lambda module: module

    def write(trainer: Any, record: Mapping[str, float] | None) -> None:
        """Log a record, if there is one, to the trainer's loggers."""
        for logger in trainer.loggers if record else ():
            logger.log_metrics(dict(record or {}), step=trainer.global_step)

    class TrainingLogCallback(base):  # type: ignore[misc]
        """Calls the log with the module, the step and the loss of the batch."""

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            """Log the model, `pl_module`, with the batch's loss: `outputs`, or their entry "loss"."""
            if trainer.is_global_zero:
                loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
                if loss is not None and trainer.accumulate_grad_batches > 1:  # which it is divided by
                    loss = loss * trainer.accumulate_grad_batches
                write(trainer, log(model_of(pl_module), trainer.global_step, train_loss=loss))

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            """Log the trained model, `pl_module` of the `trainer`, once more."""
            if trainer.is_global_zero:
                write(trainer, log.finish(model_of(pl_module)))

    return TrainingLogCallback()
