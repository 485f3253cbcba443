/* SPDX-License-Identifier: Apache-2.0
 *
 * Proper names of families whose weights people may bring, so that a message can say whose they
 * are.
 */
#include <stdio.h>
#include <string.h>

#include "weights/weights_impl.h"

/* The proper name of a model_type; a prefix of tensor names that no other family has, or NULL. */
static const struct {
    const char *type, *name, *begin;
} kin[] = {
    {"gpt_neox", "GPT-NeoX", "gpt_neox."},
    {"gpt_neo", "GPT-Neo", "transformer.h.0.attn.attention."},
    {"gptj", "GPT-J", "transformer.h.0.attn.q_proj"},
    {"gpt_bigcode", "GPTBigCode", NULL},
    {"gpt_oss", "gpt-oss", NULL},
    {"bloom", "BLOOM", "transformer.word_embeddings_layernorm."},
    {"falcon", "Falcon", NULL},
    {"mpt", "MPT", "transformer.blocks."},
    {"opt", "OPT", "model.decoder.embed_"},
    {"phi", "Phi", NULL},
    {"phi3", "Phi-3", NULL},
    {"gemma", "Gemma", NULL},
    {"gemma2", "Gemma 2", NULL},
    {"gemma3", "Gemma 3", NULL},
    {"gemma3_text", "Gemma 3", NULL},
    {"granite", "Granite", NULL},
    {"stablelm", "StableLM", NULL},
    {"smollm3", "SmolLM3", NULL},
    {"olmo", "OLMo", NULL},
    {"olmo2", "OLMo 2", NULL},
    {"cohere", "Cohere", NULL},
    {"starcoder2", "StarCoder2", NULL},
    {"nemotron", "Nemotron", NULL},
    {"internlm2", "InternLM2", "model.tok_embeddings."},
    {"chatglm", "ChatGLM", "transformer.embedding.word_embeddings."},
    {"glm", "GLM", NULL},
    {"baichuan", "Baichuan", NULL},
    {"qwen", "Qwen", NULL},
    {"qwen2_moe", "Qwen2-MoE", NULL},
    {"deepseek_v2", "DeepSeek-V2", NULL},
    {"deepseek_v3", "DeepSeek-V3", NULL},
    {"mamba", "Mamba", "backbone."},
    {"roberta", "RoBERTa", "roberta."},
    {"xlm-roberta", "XLM-RoBERTa", NULL},
    {"distilbert", "DistilBERT", "distilbert."},
    {"electra", "ELECTRA", "electra."},
    {"albert", "ALBERT", "albert."},
    {"deberta-v2", "DeBERTa", "deberta."},
    {"modernbert", "ModernBERT", NULL},
    {"mt5", "mT5", NULL},
    {"umt5", "UMT5", NULL},
    {"bart", "BART", "model.encoder.layernorm_embedding."},
    {"whisper", "Whisper", "model.encoder.conv1."},
    {"vit", "ViT", "vit."},
    {"clip", "CLIP", "text_model."},
};

const char *pst_weights_kin(const char *model_type, char name[100])
{
    for (size_t i = 0; i < sizeof kin / sizeof *kin; i++) {
        if (strcmp(kin[i].type, model_type) == 0) {
            snprintf(name, 100, "%s (%s)", kin[i].name, model_type);
            return name;
        }
    }
    snprintf(name, 100, "%.90s", model_type);
    return name;
}

const char *pst_weights_kin_of(const char *tensor)
{
    for (size_t i = 0; i < sizeof kin / sizeof *kin; i++) {
        if (kin[i].begin != NULL && strncmp(tensor, kin[i].begin, strlen(kin[i].begin)) == 0) {
            return kin[i].name;
        }
    }
    return NULL;
}
