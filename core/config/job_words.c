/* SPDX-License-Identifier: Apache-2.0
 *
 * What a word that is no key where it stands may mean: a key of another table, or that of another
 * program.
 */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/util.h"
#include "config/job.h"

/* Every table that a config may hold at its top. */
const char *const pst_job_tables[] = {
    "model",     "data",    "train", "cluster",    "profile",  "partitioner",
    "scheduler", "memopt",  "run",   "checkpoint", "plugins",  "limits",
    "output",    "compare", "tune",  "include",    "parallel", NULL,
};

/* Keys that another name, a table's or that of other programs, stands for; where several tables
   have such a key, the one that is meant more often. */
static const struct {
    const char *word, *table, *key;
} usual[] = {
    {"model", "model", "use"},
    {"partitioner", "partitioner", "use"},
    {"scheduler", "scheduler", "use"},
    {"memopt", "memopt", "use"},
    {"data", "data", "train"},
    {"profile", "profile", "file"},
    {"run", "run", "device"},
    {"checkpoint", "checkpoint", "folder"},
    {"output_dir", "checkpoint", "folder"},
    {"plugins", "plugins", "path"},
    {"seed", "train", "seed"},
    {"dtype", "run", "dtype"},
    {"learning_rate", "train", "lr"},
    {"batch_size", "train", "batch"},
    {"global_batch_size", "train", "batch"},
    {"micro_batch_size", "train", "microbatch"},
    {"max_steps", "train", "steps"},
    {"epochs", "train", "steps"},
    {"num_epochs", "train", "steps"},
    {"devices", "cluster", "devices"},
    {"gpus", "cluster", "devices"},
    {"num_gpus", "cluster", "devices"},
    {"memory", "cluster", "memory"},
    {"layers", "model", "layers"},
    {"context", "model", "context"},
    {"vocab", "model", "vocab"},
    {"num_layers", "model", "layers"},
    {"n_layer", "model", "layers"},
    {"num_hidden_layers", "model", "layers"},
    {"hidden_size", "model", "dim"},
    {"d_model", "model", "dim"},
    {"n_embd", "model", "dim"},
    {"num_heads", "model", "heads"},
    {"num_attention_heads", "model", "heads"},
    {"n_head", "model", "heads"},
    {"seq_length", "model", "context"},
    {"seq_len", "model", "context"},
    {"max_seq_len", "model", "context"},
    {"vocab_size", "model", "vocab"},
    {"num_train_epochs", "train", "steps"},
    {"per_device_train_batch_size", "train", "microbatch"},
    {"gradient_accumulation_steps", "train", "microbatch"},
    {"bf16", "run", "dtype"},
    {"precision", "run", "dtype"},
    {"gpu", "run", "device"},
    {"pipeline_parallel_size", "cluster", "devices"},
    {"pipeline_model_parallel_size", "cluster", "devices"},
};

static struct {
    const char *table;
    const struct pst_param *rows;
    uint32_t n_rows;
} told[32];
static uint32_t n_told;

void pst_job_tell_rows(const char *table, const struct pst_param *rows, uint32_t n_rows)
{
    PST_ASSERT(n_told < sizeof told / sizeof *told);
    told[n_told].table = table;
    told[n_told].rows = rows;
    told[n_told++].n_rows = n_rows;
}

static bool has_row(const char *table, const struct pst_param *rows, uint32_t n_rows,
                    const char *key, char ret_key[PST_JOB_KEY_TEXT])
{
    uint32_t i = 0;

    while (i < n_rows && strcmp(rows[i].key, key) != 0) {
        i++;
    }
    if (i < n_rows) {
        snprintf(ret_key, PST_JOB_KEY_TEXT, "%s.%s", table, key);
    }
    return i < n_rows;
}

bool pst_job_key_meant(const char *word, char ret_key[PST_JOB_KEY_TEXT])
{
    const char *dot = strchr(word, '.');
    char key[PST_JOB_KEY_TEXT / 2];

    snprintf(key, sizeof key, "%.*s", dot == NULL ? -1 : (int)(dot - word), word);
    for (char *c = key; *c != '\0'; c++) {
        *c = *c == '-' ? '_' : *c;
    }
    if (dot != NULL && dot[1] != '\0' && pst_text_is_one_of(pst_job_tables, key)) {
        snprintf(ret_key, PST_JOB_KEY_TEXT, "%s", word);
        return true;
    }
    for (size_t i = 0; i < sizeof usual / sizeof *usual && dot == NULL; i++) {
        if (strcmp(usual[i].word, key) == 0) {
            snprintf(ret_key, PST_JOB_KEY_TEXT, "%s.%s", usual[i].table, usual[i].key);
            return true;
        }
    }
    for (uint32_t i = 0; pst_job_sections[i].name != NULL && dot == NULL; i++) {
        if (has_row(pst_job_sections[i].name, pst_job_sections[i].rows, pst_job_sections[i].n_rows,
                    key, ret_key)) {
            return true;
        }
    }
    for (uint32_t i = 0; i < n_told && dot == NULL; i++) {
        if (has_row(told[i].table, told[i].rows, told[i].n_rows, key, ret_key)) {
            return true;
        }
    }
    return false;
}
