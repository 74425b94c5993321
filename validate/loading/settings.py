"""Configurations of sparse autoencoders: which keys change the function, which are harmless.

The keys are all fields of the configurations of SAELens from 1.0 to 6.18. Before 6.0 `activation_fn` or
`activation_fn_str` names the activation, today `architecture` does.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...theory.validation import short_repr

ARCHITECTURES = ("standard", "jumprelu")

# Keys that say on what, for how long and how an autoencoder was trained, how it is logged and where it lies.
HARMLESS = frozenset((
    "act_size", "act_store_device", "adam_beta1", "adam_beta2", "autocast", "autocast_lm",
    "aux_loss_coefficient", "b_dec_init_method", "begin_batch_token", "begin_sequence_token",
    "buffer_size_gb", "cached_activations_path", "checkpoint_path", "column_name", "compile_llm",
    "compile_sae", "context_size", "d_in", "d_out", "d_sae", "data_dir", "data_files", "dataset_name",
    "dataset_path", "dataset_trust_remote_code", "dead_feature_estimation_method",
    "dead_feature_threshold", "dead_feature_window", "decoder_heuristic_init",
    "decoder_heuristic_init_norm", "decoder_init_norm", "decoder_orthogonal_init", "device",
    "disable_concat_sequences", "dtype", "ema_beta", "eval_batch_size_prompts",
    "eval_every_n_wandb_logs", "exclude_special_tokens", "expansion_factor", "feature_probability",
    "feature_reinit_scale", "feature_sampling_method", "feature_sampling_window", "finetuning_method",
    "finetuning_tokens", "from_pretrained_path", "hf_is_private_repo", "hf_num_shards", "hf_repo_id",
    "hf_revision", "hook_eval", "hook_head_index", "hook_head_index_out", "hook_layer",
    "hook_layer_out", "hook_name", "hook_name_out", "hook_point", "hook_point_eval",
    "hook_point_head_index", "hook_point_layer", "init_encoder_as_decoder_transpose",
    "is_dataset_tokenized", "jumprelu_bandwidth", "jumprelu_init_threshold",
    "jumprelu_sparsity_loss_mode", "jumprelu_tanh_scale", "l0_coefficient", "l0_warm_up_steps",
    "l1_coefficient", "l1_warm_up_steps", "llm_compilation_mode", "log_activations_store_to_wandb",
    "log_optimizer_state_to_wandb", "log_to_wandb", "logger", "logging_config", "lp_norm", "lr",
    "lr_decay_steps", "lr_end", "lr_scheduler_name", "lr_warm_up_steps", "metadata", "model_batch_size",
    "model_class_name", "model_from_pretrained_kwargs", "model_kwargs", "model_name",
    "model_training_steps", "mse_loss_normalization", "n_anticorrelated_pairs", "n_batches_in_buffer",
    "n_checkpoints", "n_correlated_pairs", "n_eval_batches", "n_eval_seqs", "n_features", "n_hidden",
    "n_inst", "n_restart_cycles", "n_shuffles_final", "n_shuffles_in_entire_dir",
    "n_shuffles_with_last_section", "neuronpedia_id", "new_cached_activations_path", "noise_scale",
    "normalize_sae_decoder", "num_proc", "output_path", "pre_act_loss_coefficient", "prepend_bos",
    "pretokenize_batch_size", "release", "resample_batches", "reshape_activations", "resume",
    "resume_from_checkpoint", "run_name", "sae_compilation_mode", "sae_id", "sae_lens_training_version",
    "sae_lens_version", "save_final_checkpoint", "save_path", "scale_sparsity_penalty_by_decoder_norm",
    "seed", "seqpos_slice", "sequence_separator_token", "shuffle", "shuffle_every_n_buffers",
    "sparsity_coeff", "split", "ste_epsilon", "store_batch_size", "store_batch_size_prompts",
    "streaming", "tokenizer_name", "tokens_per_buffer", "topk_threshold_lr", "total_training_samples",
    "total_training_steps", "total_training_tokens", "train_batch_size", "train_batch_size_samples",
    "train_batch_size_tokens", "training_tokens", "use_cached_activations", "use_ghost_grads",
    "use_sparse_activations", "verbose", "wandb_entity", "wandb_id", "wandb_log_frequency",
    "wandb_project", "weight_normalize_eps",
))  # fmt: skip
# Keys that change it, which an object may have by its class.
_OF_CLASSES = (
    "architecture", "activation_fn", "activation_fn_str", "apply_b_dec_to_input", "normalize_activations",
    "finetuning_scaling_factor", "k", "sae_type", "top_k", "rescale_acts_by_decoder_norm", "tied_weights",
)  # fmt: skip
# Names of settings that change what a model computes, in whatever code.
_SUSPECT = re.compile(
    r"(.*_)?(act|activation|nonlin\w*|normali[sz]e\w*|top_?k|gated|architecture|sae_type)"
    r"(_fn|_func|_function|_str|_type|_name|_layer)?"
)
# Values that say of such a setting that it is off, or the ReLU that is read.
_USUAL = (None, False, 0, "", "none", "relu", "ReLU", "standard", "vanilla", "false")


@dataclass(frozen=True)
class Settings:
    """The settings of a configuration that decide an autoencoder's function."""

    architecture: str = "standard"
    apply_b_dec_to_input: bool | None = None
    """Whether b_dec is subtracted from inputs; None if the configuration does not say."""
    finetuning_scaling_factor: bool = False


def _refusal(rule: str, key: str, value: Any) -> ValueError:
    """Return the ValueError that a model must obey `rule`, for a bad `value` of the setting `key`."""
    return ValueError(f"`model` must {rule}; got {short_repr(value)} for {key} in its cfg.")


def _flag(key: str, value: Any) -> bool:
    """Return the `value` of the setting `key` as a bool; ValueError unless a bool or text such as "no"."""
    if isinstance(value, bool):
        return value
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if str(value).lower() not in words or isinstance(value, float):
        raise _refusal(f"say by True or False whether {key}", key, value)
    return words[str(value).lower()]


def as_mapping(cfg: Any) -> dict[str, Any]:
    """Return a configuration as a dict; for an object, such as SAELens', its public attributes."""
    if isinstance(cfg, Mapping):
        return dict(cfg)
    settings = {name: getattr(cfg, name) for name in _OF_CLASSES if hasattr(cfg, name)}
    if not isinstance(cfg, type):
        settings |= {name: value for name, value in getattr(cfg, "__dict__", {}).items() if name[:1] != "_"}
    if callable(settings.get("architecture")):
        settings["architecture"] = settings["architecture"]()
    return settings


def read_sae_settings(cfg: Any) -> Settings:
    """Return the settings in an autoencoder's configuration that decide its function.

    A key that is neither read nor known to be harmless raises a ValueError, as does an unsupported value.

    >>> read_sae_settings({"activation_fn_str": "relu", "apply_b_dec_to_input": "false"})
    Settings(architecture='standard', apply_b_dec_to_input=False, finetuning_scaling_factor=False)
    """
    settings = {name: value for name, value in as_mapping(cfg).items() if name not in HARMLESS}
    kind = settings.pop("architecture", "standard")
    if kind not in ARCHITECTURES:
        raise ValueError(
            f"`model` must have one of the architectures {', '.join(map(repr, ARCHITECTURES))}; got {kind!r}."
        )
    for key in ("activation_fn", "activation_fn_str", "activation"):
        value = settings.pop(key, "relu")
        if str(value).lower() not in ("relu", "none", "relu()"):
            raise _refusal("have ReLUs or JumpReLUs as its latents", key, value)
    settings.pop("activation_fn_kwargs", None)  # of an activation that is not ReLU
    normal = settings.pop("normalize_activations", "none")
    if normal not in ("none", None, False, "false"):
        rule = "not normalise its input, or have that folded in (normalize_activations='none')"
        raise ValueError(f"`model` must {rule}; got {normal!r}.")
    subtracts = settings.pop("apply_b_dec_to_input", None)
    scaled = _flag("finetuning_scaling_factor", settings.pop("finetuning_scaling_factor", False) or False)
    for key in ("tied_weights", "rescale_acts_by_decoder_norm"):
        if _flag(key, settings.get(key) or False) is False:
            settings.pop(key, None)
    for key, value in settings.items():
        if value not in (None, False) if not isinstance(value, list | dict) else value:
            rule = "have a cfg of known keys alone, as any other may change what is computed"
            raise _refusal(f"{rule} (leave {key!r} out if it does not)", key, value)
    return Settings(kind, None if subtracts is None else _flag("apply_b_dec_to_input", subtracts), scaled)


def is_setting(name: str) -> bool:
    """Return whether an entry beside arrays is a setting by its name: one that is read, or harmless."""
    return name in HARMLESS or _SUSPECT.fullmatch(name.lower()) is not None


def refuse_unsupported(cfg: Mapping[str, Any]) -> None:
    """Raise ValueError if settings of a toy model name an activation other than ReLU, or a normalisation."""
    for key, value in cfg.items():
        suspect = _SUSPECT.fullmatch(str(key).lower()) is not None
        named = getattr(value, "__name__", value)  # of a function or class, as torch.relu
        if suspect and not (isinstance(named, str | int | float | None) and named in _USUAL):
            raise _refusal("be ReLU(W_out W_in x + b), and its settings say something else", str(key), value)
