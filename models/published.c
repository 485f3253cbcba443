/* SPDX-License-Identifier: Apache-2.0
 *
 * Published weights of the families that there are builders for: those of the Hugging Face hub as
 * `transformers` reads and writes them, and torchvision's. Parameters that the published model
 * scales elsewhere carry the factor themselves: T5's scores are not divided by the root of a head's
 * width, so queries are multiplied by it here; what enters the head that T5's table is, is divided
 * by the root of dim, so is the gain of the norm before it here.
 */
#include "graph/published.h"

/* WHOLE: options that must be off. ONE_PART: the model only encodes, or only decodes. */
#define WHOLE                                                                                      \
    {.theirs = "is_decoder", .fixed = "false", .use = PST_KEY_READ},                               \
        {.theirs = "add_cross_attention", .fixed = "false", .use = PST_KEY_READ},                  \
        {.theirs = "tie_encoder_decoder", .fixed = "false", .use = PST_KEY_READ},                  \
    {                                                                                              \
        .theirs = "pruned_heads", .fixed = "{}", .use = PST_KEY_READ                               \
    }
#define ONE_PART                                                                                   \
    {                                                                                              \
        .theirs = "is_encoder_decoder", .fixed = "false", .use = PST_KEY_READ                      \
    }

/* --- GPT-2 ------------------------------------------------------------------------------------ */

static const struct pst_published_row gpt_rows[] = {
    {.own = "wpe.weight", .theirs = "wpe.weight", .layout = PST_LAYOUT_ROWS},
    {.own = "lm_head.weight", .theirs = "lm_head.weight", .layout = PST_LAYOUT_TORCH, .bare = true},
    {.own = "*", .theirs = "*"}, /* Conv1D has weights [in, out] */
    {.own = NULL},
};
static const char *const gpt_ignored[] = {".attn.bias", ".attn.masked_bias", NULL};
static const struct pst_published_key gpt_keys[] = {
    {.theirs = "model_type", .fixed = "\"gpt2\"", .use = PST_KEY_MUST},
    {.theirs = "architectures", .fixed = "[\"GPT2LMHeadModel\"]"},
    {.theirs = "n_layer", .own = "layers"},
    {.theirs = "n_embd", .own = "dim"},
    {.theirs = "n_head", .own = "heads", .use = PST_KEY_MUST},
    {.theirs = "n_positions", .own = "context", .use = PST_KEY_FREE},
    {.theirs = "vocab_size", .own = "vocab"},
    {.theirs = "tie_word_embeddings", .own = "tied", .use = PST_KEY_MUST, .absent = "true"},
    {.theirs = "embd_pdrop", .own = "dropout", .use = PST_KEY_FREE},
    {.theirs = "resid_pdrop", .own = "dropout", .use = PST_KEY_FREE},
    {.theirs = "attn_pdrop", .fixed = "0.0"},
    {.theirs = "activation_function",
     .fixed = "\"gelu_new\"|\"gelu_pytorch_tanh\"|\"gelu_fast\"",
     .use = PST_KEY_MUST},
    {.theirs = "layer_norm_epsilon", .fixed = "1e-05", .use = PST_KEY_MUST},
    {.theirs = "scale_attn_weights", .fixed = "true", .use = PST_KEY_MUST},
    {.theirs = "scale_attn_by_inverse_layer_idx", .fixed = "false", .use = PST_KEY_MUST},
    {.theirs = "bos_token_id", .fixed = "null"},
    {.theirs = "eos_token_id", .fixed = "null"},
    {.theirs = "n_inner", .own = "dim", .times = 4, .set = "", .use = PST_KEY_READ},
    WHOLE,
    ONE_PART,
    {.theirs = NULL},
};
static const char *const gpt_harmless[] = {"n_ctx",
                                           "reorder_and_upcast_attn",
                                           "summary_activation",
                                           "summary_first_dropout",
                                           "summary_proj_to_labels",
                                           "summary_type",
                                           "summary_use_proj",
                                           NULL};
static const struct pst_published gpt = {.model = "gpt",
                                         .prefix = "transformer.",
                                         .rows = gpt_rows,
                                         .ignored = gpt_ignored,
                                         .keys = gpt_keys,
                                         .harmless = gpt_harmless};

/* --- BERT ------------------------------------------------------------------------------------- */

#define LAYER "encoder.layer.#."

static const struct pst_published_row bert_rows[] = {
    {.own = "embeddings.words.weight", .theirs = "embeddings.word_embeddings.weight"},
    {.own = "embeddings.positions.weight",
     .theirs = "embeddings.position_embeddings.weight",
     .layout = PST_LAYOUT_ROWS},
    {.own = "embeddings.segments.weight", .theirs = "embeddings.token_type_embeddings.weight"},
    {.own = "embeddings.norm.*", .theirs = "embeddings.LayerNorm.*"},
    {.own = "encoder.#.attention.qkv.*",
     .theirs = LAYER "attention.self.query.*|" LAYER "attention.self.key.*|" LAYER
                     "attention.self.value.*",
     .layout = PST_LAYOUT_TORCH},
    {.own = "encoder.#.attention.output.*",
     .theirs = LAYER "attention.output.dense.*",
     .layout = PST_LAYOUT_TORCH},
    {.own = "encoder.#.attention.norm.*", .theirs = LAYER "attention.output.LayerNorm.*"},
    {.own = "encoder.#.intermediate.*",
     .theirs = LAYER "intermediate.dense.*",
     .layout = PST_LAYOUT_TORCH},
    {.own = "encoder.#.output.*", .theirs = LAYER "output.dense.*", .layout = PST_LAYOUT_TORCH},
    {.own = "encoder.#.norm.*", .theirs = LAYER "output.LayerNorm.*"},
    {.own = "head.transform.*",
     .theirs = "cls.predictions.transform.dense.*",
     .layout = PST_LAYOUT_TORCH,
     .bare = true},
    {.own = "head.norm.*", .theirs = "cls.predictions.transform.LayerNorm.*", .bare = true},
    {.own = "head.decoder.bias", .theirs = "cls.predictions.bias", .bare = true},
    {.own = NULL},
};
static const struct pst_published_alias bert_aliases[] = {
    {"LayerNorm.weight", "LayerNorm.gamma"},
    {"LayerNorm.bias", "LayerNorm.beta"},
    {"predictions.bias", "predictions.decoder.bias"},
    {NULL, NULL},
};
static const char *const bert_ignored[] = {".position_ids", "predictions.decoder.weight",
                                           "predictions.decoder.bias", NULL};
static const struct pst_published_key bert_keys[] = {
    {.theirs = "model_type", .fixed = "\"bert\"", .use = PST_KEY_MUST},
    {.theirs = "architectures", .fixed = "[\"BertForMaskedLM\"]"},
    {.theirs = "num_hidden_layers", .own = "layers"},
    {.theirs = "hidden_size", .own = "dim"},
    {.theirs = "intermediate_size", .own = "dim", .times = 4, .set = ""},
    {.theirs = "num_attention_heads", .own = "heads", .use = PST_KEY_MUST},
    {.theirs = "max_position_embeddings", .own = "context", .use = PST_KEY_FREE},
    {.theirs = "vocab_size", .own = "vocab"},
    {.theirs = "type_vocab_size", .own = "segments"},
    {.theirs = "hidden_dropout_prob", .own = "dropout", .use = PST_KEY_FREE},
    {.theirs = "attention_probs_dropout_prob", .fixed = "0.0"},
    {.theirs = "hidden_act", .fixed = "\"gelu\"", .use = PST_KEY_MUST, .when = "gelu=erf"},
    {.theirs = "hidden_act",
     .fixed = "\"gelu_new\"|\"gelu_pytorch_tanh\"|\"gelu_fast\"",
     .use = PST_KEY_MUST,
     .when = "gelu=tanh"},
    {.theirs = "layer_norm_eps", .fixed = "1e-12", .use = PST_KEY_MUST},
    {.theirs = "position_embedding_type", .fixed = "\"absolute\"", .use = PST_KEY_READ},
    {.theirs = "tie_word_embeddings", .fixed = "true", .use = PST_KEY_READ},
    WHOLE,
    ONE_PART,
    {.theirs = NULL},
};
static const char *const bert_harmless[] = {"directionality",
                                            "pooler_fc_size",
                                            "pooler_num_attention_heads",
                                            "pooler_num_fc_layers",
                                            "pooler_size_per_head",
                                            "pooler_type",
                                            NULL};
static const struct pst_published bert = {.model = "bert",
                                          .prefix = "bert.",
                                          .rows = bert_rows,
                                          .aliases = bert_aliases,
                                          .ignored = bert_ignored,
                                          .keys = bert_keys,
                                          .harmless = bert_harmless};

/* --- T5 --------------------------------------------------------------------------------------- */

#define IN  "encoder.block.#.layer."
#define OUT "decoder.block.#.layer."

static const struct pst_published_row t5_rows[] = {
    {.own = "shared.weight", .theirs = "shared.weight"},
    {.own = "encoder.distances.weight",
     .theirs = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"},
    {.own = "encoder.#.attention.qkv.weight",
     .theirs = IN "0.SelfAttention.q.weight|" IN "0.SelfAttention.k.weight|" IN
                  "0.SelfAttention.v.weight",
     .layout = PST_LAYOUT_TORCH,
     .root = "head_dim"},
    {.own = "encoder.#.attention.o.weight",
     .theirs = IN "0.SelfAttention.o.weight",
     .layout = PST_LAYOUT_TORCH},
    {.own = "encoder.#.attention.norm.weight", .theirs = IN "0.layer_norm.weight"},
    {.own = "encoder.#.ff.norm.weight", .theirs = IN "1.layer_norm.weight"},
    {.own = "encoder.#.ff.gate_up.weight",
     .theirs = IN "1.DenseReluDense.wi_0.weight|" IN "1.DenseReluDense.wi_1.weight",
     .layout = PST_LAYOUT_TORCH},
    {.own = "encoder.#.ff.*", .theirs = IN "1.DenseReluDense.*", .layout = PST_LAYOUT_TORCH},
    {.own = "encoder.norm.weight", .theirs = "encoder.final_layer_norm.weight"},
    {.own = "decoder.distances.weight",
     .theirs = "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"},
    {.own = "decoder.#.attention.qkv.weight",
     .theirs = OUT "0.SelfAttention.q.weight|" OUT "0.SelfAttention.k.weight|" OUT
                   "0.SelfAttention.v.weight",
     .layout = PST_LAYOUT_TORCH,
     .root = "head_dim"},
    {.own = "decoder.#.attention.o.weight",
     .theirs = OUT "0.SelfAttention.o.weight",
     .layout = PST_LAYOUT_TORCH},
    {.own = "decoder.#.attention.norm.weight", .theirs = OUT "0.layer_norm.weight"},
    {.own = "decoder.#.cross.q.weight",
     .theirs = OUT "1.EncDecAttention.q.weight",
     .layout = PST_LAYOUT_TORCH,
     .root = "head_dim"},
    {.own = "decoder.#.cross.kv.weight",
     .theirs = OUT "1.EncDecAttention.k.weight|" OUT "1.EncDecAttention.v.weight",
     .layout = PST_LAYOUT_TORCH},
    {.own = "decoder.#.cross.o.weight",
     .theirs = OUT "1.EncDecAttention.o.weight",
     .layout = PST_LAYOUT_TORCH},
    {.own = "decoder.#.cross.norm.weight", .theirs = OUT "1.layer_norm.weight"},
    {.own = "decoder.#.ff.norm.weight", .theirs = OUT "2.layer_norm.weight"},
    {.own = "decoder.#.ff.gate_up.weight",
     .theirs = OUT "2.DenseReluDense.wi_0.weight|" OUT "2.DenseReluDense.wi_1.weight",
     .layout = PST_LAYOUT_TORCH},
    {.own = "decoder.#.ff.*", .theirs = OUT "2.DenseReluDense.*", .layout = PST_LAYOUT_TORCH},
    {.own = "decoder.norm.weight",
     .theirs = "decoder.final_layer_norm.weight",
     .root = "dim",
     .inverse = true,
     .when = "tied"},
    {.own = "decoder.norm.weight", .theirs = "decoder.final_layer_norm.weight"},
    {.own = "lm_head.weight", .theirs = "lm_head.weight", .layout = PST_LAYOUT_TORCH},
    {.own = NULL},
};
static const char *const t5_ignored[] = {"embed_tokens.weight",
                                         "EncDecAttention.relative_attention_bias.weight", NULL};
static const struct pst_published_key t5_keys[] = {
    {.theirs = "model_type", .fixed = "\"t5\"", .use = PST_KEY_MUST},
    {.theirs = "architectures", .fixed = "[\"T5ForConditionalGeneration\"]"},
    {.theirs = "is_encoder_decoder", .fixed = "true", .use = PST_KEY_MUST},
    {.theirs = "num_layers", .own = "layers"},
    {.theirs = "num_decoder_layers", .own = "decoder_layers"},
    {.theirs = "d_model", .own = "dim"},
    {.theirs = "d_kv", .own = "head_dim", .use = PST_KEY_MUST},
    {.theirs = "d_ff", .own = "ff"},
    {.theirs = "num_heads", .own = "heads", .use = PST_KEY_MUST},
    {.theirs = "vocab_size", .own = "vocab"},
    {.theirs = "relative_attention_num_buckets", .own = "buckets"},
    {.theirs = "relative_attention_max_distance", .own = "max_distance", .use = PST_KEY_MUST},
    {.theirs = "dropout_rate", .own = "dropout", .use = PST_KEY_FREE},
    {.theirs = "layer_norm_epsilon", .fixed = "1e-06", .use = PST_KEY_MUST},
    {.theirs = "feed_forward_proj",
     .fixed = "\"gated-gelu\"",
     .use = PST_KEY_MUST,
     .absent = "\"relu\"",
     .when = "gated"},
    {.theirs = "feed_forward_proj", .fixed = "\"relu\"", .use = PST_KEY_MUST, .absent = "\"relu\""},
    {.theirs = "dense_act_fn", .fixed = "\"gelu_new\"", .use = PST_KEY_READ, .when = "gated"},
    {.theirs = "dense_act_fn", .fixed = "\"relu\"", .use = PST_KEY_READ},
    {.theirs = "is_gated_act", .own = "gated", .use = PST_KEY_READ},
    {.theirs = "scale_decoder_outputs", .own = "tied", .use = PST_KEY_MUST},
    {.theirs = "tie_word_embeddings", /* true in all that transformers 5 writes */
     .own = "tied",
     .use = PST_KEY_MUST,
     .unless = "scale_decoder_outputs"},
    {.theirs = "decoder_start_token_id", .fixed = "0"},
    {.theirs = "pad_token_id", .fixed = "0"},
    {.theirs = "eos_token_id", .fixed = "1"},
    WHOLE,
    {.theirs = NULL},
};
static const char *const t5_harmless[] = {"n_positions", NULL};
static const struct pst_published t5 = {.model = "t5",
                                        .rows = t5_rows,
                                        .ignored = t5_ignored,
                                        .keys = t5_keys,
                                        .harmless = t5_harmless};

/* --- torchvision's residual networks ---------------------------------------------------------- */

static const struct pst_published_row resnet_rows[] = {
    {.own = "*", .theirs = "*", .layout = PST_LAYOUT_TORCH},
    {.own = NULL},
};
static const char *const resnet_ignored[] = {".num_batches_tracked", NULL};
static const struct pst_published resnet = {
    .model = "resnet", .rows = resnet_rows, .ignored = resnet_ignored};

/* --- Llama, Mistral, Mixtral, Qwen ------------------------------------------------------------ */

#define BLOCK   "layers.#."
#define MIXTRAL "block_sparse_moe."

static const struct pst_published_row llama_rows[] = {
    {.own = "embed_tokens.weight", .theirs = "embed_tokens.weight"},
    {.own = "layers.#.self_attn.qkv.*",
     .theirs = BLOCK "self_attn.q_proj.*|" BLOCK "self_attn.k_proj.*|" BLOCK "self_attn.v_proj.*",
     .layout = PST_LAYOUT_TORCH,
     .parts = "heads|kv_heads|kv_heads"},
    {.own = "layers.#.mlp.gate_up.*",
     .theirs = BLOCK "mlp.gate_proj.*|" BLOCK "mlp.up_proj.*",
     .layout = PST_LAYOUT_TORCH},
    {.own = "layers.#.mlp.experts.gate_up.weight",
     .theirs = BLOCK "mlp.experts.@.gate_proj.weight|" BLOCK "mlp.experts.@.up_proj.weight",
     .layout = PST_LAYOUT_TORCH,
     .when = "qk_norm"},
    {.own = "layers.#.mlp.experts.down_proj.weight",
     .theirs = BLOCK "mlp.experts.@.down_proj.weight",
     .layout = PST_LAYOUT_TORCH,
     .when = "qk_norm"},
    {.own = "layers.#.mlp.experts.gate_up.weight",
     .theirs = BLOCK MIXTRAL "experts.@.w1.weight|" BLOCK MIXTRAL "experts.@.w3.weight",
     .layout = PST_LAYOUT_TORCH},
    {.own = "layers.#.mlp.experts.down_proj.weight",
     .theirs = BLOCK MIXTRAL "experts.@.w2.weight",
     .layout = PST_LAYOUT_TORCH},
    {.own = "layers.#.mlp.gate.weight",
     .theirs = BLOCK MIXTRAL "gate.weight",
     .layout = PST_LAYOUT_TORCH,
     .when = "!qk_norm"},
    {.own = "lm_head.weight", .theirs = "lm_head.weight", .layout = PST_LAYOUT_TORCH, .bare = true},
    {.own = "*", .theirs = "*", .layout = PST_LAYOUT_TORCH},
    {.own = NULL},
};
/* Mistral's files have a window whatever that key says, and Llama's have none whatever their files
   say: transformers does not read these keys there. */
#define NO_WINDOW "use_sliding_window!mistral|mixtral"

static const char *const llama_ignored[] = {".rotary_emb.inv_freq", NULL};
static const struct pst_published_key llama_keys[] = {
    {.theirs = "model_type",
     .fixed = "\"qwen3_moe\"",
     .use = PST_KEY_MUST,
     .when = "experts&qk_norm"},
    {.theirs = "model_type", .fixed = "\"mixtral\"", .use = PST_KEY_MUST, .when = "experts"},
    {.theirs = "model_type", .fixed = "\"qwen3\"", .use = PST_KEY_MUST, .when = "qk_norm"},
    {.theirs = "model_type", .fixed = "\"qwen2\"", .use = PST_KEY_MUST, .when = "qkv_bias"},
    {.theirs = "model_type", .fixed = "\"mistral\"", .use = PST_KEY_MUST, .when = "window"},
    {.theirs = "model_type", .fixed = "\"llama\"|\"mistral\"", .use = PST_KEY_MUST},
    {.theirs = "architectures", .fixed = "[\"Qwen3MoeForCausalLM\"]", .when = "experts&qk_norm"},
    {.theirs = "architectures", .fixed = "[\"MixtralForCausalLM\"]", .when = "experts"},
    {.theirs = "architectures", .fixed = "[\"Qwen3ForCausalLM\"]", .when = "qk_norm"},
    {.theirs = "architectures", .fixed = "[\"Qwen2ForCausalLM\"]", .when = "qkv_bias"},
    {.theirs = "architectures", .fixed = "[\"MistralForCausalLM\"]", .when = "window"},
    {.theirs = "architectures", .fixed = "[\"LlamaForCausalLM\"]"},
    {.theirs = "num_hidden_layers", .own = "layers"},
    {.theirs = "hidden_size", .own = "dim"},
    {.theirs = "intermediate_size", .own = "ff"},
    {.theirs = "moe_intermediate_size", .own = "ff", .when = "experts&qk_norm"},
    {.theirs = "num_experts", .own = "experts", .use = PST_KEY_MUST, .when = "experts&qk_norm"},
    {.theirs = "num_local_experts",
     .own = "experts",
     .use = PST_KEY_MUST,
     .when = "experts&!qk_norm"},
    {.theirs = "num_experts_per_tok",
     .own = "experts_per_token",
     .use = PST_KEY_MUST,
     .when = "experts"},
    {.theirs = "norm_topk_prob",
     .own = "normalize",
     .use = PST_KEY_MUST,
     .when = "experts&qk_norm"},
    {.theirs = "decoder_sparse_step", .fixed = "1", .use = PST_KEY_MUST, .when = "experts&qk_norm"},
    {.theirs = "mlp_only_layers", .fixed = "[]", .use = PST_KEY_MUST, .when = "experts&qk_norm"},
    {.theirs = "router_aux_loss_coef", .own = "aux_loss", .use = PST_KEY_FREE, .when = "experts"},
    {.theirs = "num_attention_heads", .own = "heads", .use = PST_KEY_MUST},
    {.theirs = "num_key_value_heads",
     .own = "kv_heads",
     .use = PST_KEY_MUST,
     .absent = "@num_attention_heads",
     .when = "kv_heads"},
    {.theirs = "num_key_value_heads", .own = "heads", .set = "kv_heads", .use = PST_KEY_MUST},
    {.theirs = "head_dim", .own = "head_dim", .use = PST_KEY_MUST, .when = "head_dim"},
    {.theirs = "head_dim", .own = "dim", .over = "heads", .set = "head_dim", .use = PST_KEY_MUST},
    {.theirs = "max_position_embeddings", .own = "context", .use = PST_KEY_FREE},
    {.theirs = "vocab_size", .own = "vocab"},
    {.theirs = "tie_word_embeddings", .own = "tied", .use = PST_KEY_MUST, .absent = "false"},
    {.theirs = "hidden_act", .fixed = "\"silu\"|\"swish\"", .use = PST_KEY_MUST},
    {.theirs = "rms_norm_eps",
     .own = "eps",
     .use = PST_KEY_MUST,
     .absent = "1e-05",
     .when = "experts&!qk_norm"},
    {.theirs = "rms_norm_eps", .own = "eps", .use = PST_KEY_MUST, .absent = "1e-06"},
    {.theirs = "attention_bias", .fixed = "false", .use = PST_KEY_MUST, .when = "!qkv_bias"},
    {.theirs = "mlp_bias", .fixed = "false", .use = PST_KEY_MUST},
    {.theirs = "attention_dropout", .fixed = "0.0"},
    {.theirs = "sliding_window",
     .own = "window",
     .use = PST_KEY_MUST,
     .absent = "0",
     .unless = NO_WINDOW,
     .unread_by = "llama",
     .when = "window"},
    {.theirs = "sliding_window",
     .fixed = "null",
     .use = PST_KEY_MUST,
     .from = "context",
     .unless = NO_WINDOW,
     .unread_by = "llama"},
    {.theirs = "use_sliding_window",
     .fixed = "true",
     .set = "window",
     .use = PST_KEY_MUST,
     .absent = "false",
     .when = "window&qkv_bias"},
    {.theirs = "use_sliding_window",
     .fixed = "true",
     .set = "window",
     .use = PST_KEY_MUST,
     .absent = "false",
     .when = "window&qk_norm"},
    {.theirs = "layer_types",
     .fixed = "\"sliding_attention\"",
     .use = PST_KEY_READ,
     .unless = NO_WINDOW,
     .when = "window"},
    {.theirs = "layer_types", /* of a window as wide as the context */
     .fixed = "\"full_attention\"|\"sliding_attention\"",
     .use = PST_KEY_READ},
    {.theirs = "max_window_layers",
     .fixed = "0",
     .use = PST_KEY_MUST,
     .unless = NO_WINDOW,
     .when = "window"},
    {.theirs = "bos_token_id", .fixed = "null"},
    {.theirs = "eos_token_id", .fixed = "null"},
    {.theirs = "rope_theta",
     .own = "rope_theta",
     .use = PST_KEY_MUST,
     .absent = "1e6",
     .elsewhere = "rope_parameters.rope_theta|rope_scaling.rope_theta",
     .when = "experts&!qk_norm"},
    {.theirs = "rope_theta",
     .own = "rope_theta",
     .use = PST_KEY_MUST,
     .absent = "1e4",
     .elsewhere = "rope_parameters.rope_theta|rope_scaling.rope_theta"},
    {.theirs = "rope_scaling.rope_theta", .own = "rope_theta", .use = PST_KEY_READ},
    {.theirs = "num_local_experts", .own = "experts", .use = PST_KEY_READ, .when = "experts"},
    {.theirs = "router_jitter_noise", .fixed = "0.0", .use = PST_KEY_READ},
    {.theirs = "partial_rotary_factor", .fixed = "1.0", .use = PST_KEY_READ},
    {.theirs = "rope_parameters.partial_rotary_factor", .fixed = "1.0", .use = PST_KEY_READ},
    {.theirs = "rope_interleaved", .fixed = "false", .use = PST_KEY_READ},
    {.theirs = "use_mrope", .fixed = "false", .use = PST_KEY_READ},
    WHOLE,
    ONE_PART,
    {.theirs = "rope_parameters.rope_theta", .own = "rope_theta", .use = PST_KEY_READ},
#define ROPE(object, kept)                                                                         \
    {.theirs = object ".type",                                                                     \
     .fixed = "\"default\"",                                                                       \
     .use = PST_KEY_READ,                                                                          \
     .when = "rope_scaling=none"},                                                                 \
        {.theirs = object ".type",                                                                 \
         .own = "rope_scaling",                                                                    \
         .use = PST_KEY_READ,                                                                      \
         .when = "!rope_scaling=none"},                                                            \
        {.theirs = object ".rope_type",                                                            \
         .fixed = "\"default\"",                                                                   \
         .use = PST_KEY_READ,                                                                      \
         .when = "rope_scaling=none"},                                                             \
        {.theirs = object ".rope_type",                                                            \
         .own = "rope_scaling",                                                                    \
         .use = kept,                                                                              \
         .absent = "\"default\"",                                                                  \
         .elsewhere = "rope_scaling.rope_type|rope_scaling.type|rope_parameters.rope_type|"        \
                      "rope_parameters.type",                                                      \
         .when = "!rope_scaling=none"},                                                            \
        {.theirs = object ".factor",                                                               \
         .own = "rope_factor",                                                                     \
         .use = kept,                                                                              \
         .when = "!rope_scaling=none"},                                                            \
        {.theirs = object ".low_freq_factor",                                                      \
         .own = "rope_low_freq_factor",                                                            \
         .use = kept,                                                                              \
         .when = "rope_scaling=llama3"},                                                           \
        {.theirs = object ".high_freq_factor",                                                     \
         .own = "rope_high_freq_factor",                                                           \
         .use = kept,                                                                              \
         .when = "rope_scaling=llama3"},                                                           \
    {                                                                                              \
        .theirs = object ".original_max_position_embeddings", .own = "rope_original_context",      \
        .use = kept, .when = "rope_scaling=llama3"                                                 \
    }
    ROPE("rope_scaling", PST_KEY_MUST),
    ROPE("rope_parameters", PST_KEY_READ),
    {.theirs = NULL},
};
static const struct pst_published_lack llama_unpublished[] = {
    {"qkv_bias&qk_norm", "biases of queries, keys and values beside their norms"},
    {"qkv_bias&experts", "experts beside biases of queries, keys and values"},
    {"experts&!normalize&!qk_norm", "experts whose weights do not sum to 1"},
    {"experts&capacity", "experts with a limited capacity"},
    {NULL, NULL},
};
static const struct pst_published llama = {.model = "llama",
                                           .prefix = "model.",
                                           .rows = llama_rows,
                                           .ignored = llama_ignored,
                                           .keys = llama_keys,
                                           .unpublished = llama_unpublished};

const struct pst_published *const pst_published[] = {&gpt, &bert, &t5, &resnet, &llama, NULL};
