"""GPT-OSS in small: every kind of its layers."""

SHAPE = {
    "vocab_size": 131,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "sliding_window": 9,
    "num_local_experts": 6,
    "num_experts_per_tok": 3,
    "rope_parameters": {
        "rope_type": "yarn",
        "rope_theta": 15000.0,
        "factor": 4.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": False,
        "original_max_position_embeddings": 64,
    },
}
