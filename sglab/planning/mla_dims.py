"""The dimensions of absorbed MLA decode in DeepSeek-V2 to V3.2 and Kimi K2: one KV head for all query heads."""

LATENT_DIM = 512
"""Of the latent: keys and values (FlashMLA's head_dim_v, SGLang's kv_lora_rank)."""
ROPE_DIM = 64
"""Of the rotary part: keys only."""
HEAD_DIM = LATENT_DIM + ROPE_DIM
"""Of a query, a key, and a row of the KV cache."""
NUM_HEADS = 128
"""Query heads of the models, and of one tile of the Blackwell kernels; fewer are padded."""
