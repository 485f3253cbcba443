/* SPDX-License-Identifier: Apache-2.0
 *
 * A user's own file of a family of published weights: what is read writes the config.json of a
 * model, and is compared with a model_type.
 */
#include <stdio.h>
#include <stdlib.h>

#include "job_defaults.h"
#include "weights/weights_impl.h"
#include "fuzz.h"

/* A model with a family, its defaults as a job, and the model_type of most of its files. */
static struct {
    const char *model, *type;
    struct pst_job job;
} models[] = {
    {.model = "gpt", .type = "gpt2"},      {.model = "bert", .type = "bert"},
    {.model = "t5", .type = "t5"},         {.model = "resnet", .type = ""},
    {.model = "llama", .type = "mistral"},
};
enum { MODELS = sizeof models / sizeof *models };

static struct pst_config *configs[MODELS];

static void leave(void)
{
    for (uint32_t i = 0; i < MODELS; i++) {
        pst_job_finish(&models[i].job);
        pst_config_destroy(configs[i]);
    }
}

void fuzz_begin(void)
{
    for (uint32_t i = 0; i < MODELS; i++) {
        struct pst_error err = {0};
        char set[32];
        const char *sets[1] = {set};

        snprintf(set, sizeof set, "model.use=%s", models[i].model);
        if (pst_config_from_sets(sets, 1, &configs[i], &err) != PST_OK ||
            pst_job_read(configs[i], &models[i].job, &err) != PST_OK) {
            fuzz_fail("%s", err.message);
        }
        models[i].job.training->loop.init_type = models[i].type;
    }
    atexit(leave);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (uint32_t i = 0; i < MODELS; i++) {
        const struct pst_published *family = NULL;
        struct pst_arena arena = {0};
        struct pst_error err = {0};
        char *text = NULL;
        bool there;

        if (fuzz_judge(
                pst_published_read(fuzz_file(data, size), models[i].model, &arena, &family, &err),
                &err) &&
            family->keys != NULL) {
            fuzz_judge(pst_weights_config(&models[i].job, family, &text, &err), &err);
            fuzz_judge(pst_weights_check_config("/nowhere", &models[i].job, family, &there, &err),
                       &err);
            free(text);
        }
        pst_arena_finish(&arena);
    }
    return 0;
}
