/* SPDX-License-Identifier: Apache-2.0
 *
 * Overrides as --set and --options take them, and a config in JSON form.
 */
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "fuzz.h"

typedef pst_status reader(const char *text, struct pst_config **ret_config, struct pst_error *err);

static pst_status from_set(const char *text, struct pst_config **ret_config, struct pst_error *err)
{
    return pst_config_from_sets(&text, 1, ret_config, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static reader *const readers[] = {from_set, pst_config_from_list, pst_config_from_json};
    char *text = strndup((const char *)data, size);

    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        struct pst_config *config = NULL;
        struct pst_error err = {0};

        if (fuzz_judge(readers[i](text, &config, &err), &err)) {
            free(pst_config_to_json(config));
            pst_config_destroy(config);
        }
    }
    free(text);
    return 0;
}
