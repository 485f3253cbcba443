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

/* Keys that other words, a table's name or keys of other programs, stand for; where several tables
   have such a key, the one that is meant more often. */
static const struct {
    const char *words, *key, *remark, *value;
} usual[] = {
    {" model ", "model.use", "", NULL},
    {" partitioner ", "partitioner.use", "", NULL},
    {" scheduler ", "scheduler.use", "", NULL},
    {" memopt ", "memopt.use", "", NULL},
    {" data ", "data.train", "", NULL},
    {" profile ", "profile.file", "", NULL},
    {" run gpu ", "run.device", "", NULL},
    {" checkpoint output_dir ", "checkpoint.folder", "", NULL},
    {" plugins ", "plugins.path", "", NULL},
    {" seed ", "train.seed", "", NULL},
    {" dtype precision ", "run.dtype", "", NULL},
    {" bf16 ", "run.dtype", "", "bf16"},
    {" learning_rate ", "train.lr", "", NULL},
    {" batch_size global_batch_size ", "train.batch", "", NULL},
    {" micro_batch_size per_device_train_batch_size ", "train.microbatch", "", NULL},
    {" gradient_accumulation_steps ", "train.microbatch", ", the batch divided by that", "VALUE"},
    {" max_steps ", "train.steps", "", NULL},
    {" epochs num_epochs num_train_epochs ", "train.steps", ", which counts steps", "VALUE"},
    {" devices gpus num_gpus ", "cluster.devices", "", NULL},
    {" pipeline_parallel_size pipeline_model_parallel_size ", "cluster.devices",
     ", which counts all devices", NULL},
    {" tensor_parallel_size tensor_model_parallel_size ", "parallel.tensor", "", NULL},
    {" sequence_parallel ", "parallel.sequence", "", NULL},
    {" layers num_layers n_layer num_hidden_layers ", "model.layers", "", NULL},
    {" hidden_size d_model n_embd ", "model.dim", "", NULL},
    {" num_heads num_attention_heads n_head ", "model.heads", "", NULL},
    {" context seq_length seq_len max_seq_len ", "model.context", "", NULL},
    {" vocab vocab_size ", "model.vocab", "", NULL},
};

static struct pst_job_section told[32]; /* name and rows alone */
static uint32_t n_told;

void pst_job_tell_rows(const char *table, const struct pst_param *rows, uint32_t n_rows)
{
    PST_ASSERT(n_told < sizeof told / sizeof *told);
    told[n_told++] = (struct pst_job_section){.name = table, .rows = rows, .n_rows = n_rows};
}

/* Counts the table of the section if it has the key; a part of the table that came first, such as
   train.group of train, does not count again. */
static void count_table(const struct pst_job_section *section, const char *key, const char **first,
                        uint32_t *n)
{
    for (uint32_t i = 0; i < section->n_rows; i++) {
        if (strcmp(section->rows[i].key, key) == 0 &&
            (*n == 0 || strncmp(section->name, *first, strlen(*first)) != 0)) {
            *first = section->name;
            ++*n;
        }
    }
}

/* Returns how many tables have the key. The name of a table is no key of a model. */
static uint32_t tables_with(const char *key, const char **ret_first)
{
    uint32_t n = 0;

    for (const struct pst_job_section *section = pst_job_sections; section->name != NULL;) {
        count_table(section++, key, ret_first, &n);
    }
    for (uint32_t i = 0; i < n_told && !pst_text_is_one_of(pst_job_tables, key); i++) {
        count_table(&told[i], key, ret_first, &n);
    }
    return n;
}

bool pst_job_key_meant(const char *word, struct pst_job_meant *ret)
{
    /* Keys of one table by chance: plugins, whose rows are not told, have them as well. */
    static const char *const vague[] = {"path", "file", "output", "stages", "depth", "width", NULL};
    const char *dot = strchr(word, '.'), *table = NULL;
    char key[PST_JOB_KEY_TEXT / 2], spaced[PST_JOB_KEY_TEXT];
    bool only;

    snprintf(key, sizeof key, "%.*s", dot == NULL ? -1 : (int)(dot - word), word);
    for (char *c = key; *c != '\0'; c++) {
        *c = *c == '-' ? '_' : *c;
    }
    *ret = (struct pst_job_meant){.remark = ""};
    if (dot != NULL) {
        snprintf(ret->key, sizeof ret->key, "%s", word);
        return dot[1] != '\0' && pst_text_is_one_of(pst_job_tables, key);
    }
    only = tables_with(key, &table) == 1;
    ret->table = only ? table : NULL;
    snprintf(spaced, sizeof spaced, " %s ", key);
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        if (strstr(usual[i].words, spaced) != NULL) {
            snprintf(ret->key, sizeof ret->key, "%s", usual[i].key);
            ret->remark = usual[i].remark;
            ret->value = usual[i].value;
            return true;
        }
    }
    snprintf(ret->key, sizeof ret->key, "%s.%s", only ? table : "", key);
    return only && !pst_text_is_one_of(vague, key);
}
