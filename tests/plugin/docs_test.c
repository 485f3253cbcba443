/* SPDX-License-Identifier: Apache-2.0
 *
 * What the documents say about models and plugins is what there is.
 */
#include "test.h"

#include "config_docs.h"
#include "graph/builder.h"
#include "host/plugin_host.h"

TEST(test_models)
{
    docs_read();
    for (uint32_t i = 0; pst_model_builders[i] != NULL; i++) {
        const struct pst_model_builder *builder = pst_model_builders[i];
        char heading[80];

        snprintf(heading, sizeof heading, "[model] %s", builder->id);
        docs_expect(heading, builder->params, builder->n_params, sizeof(struct pst_param));
    }
}

/* Every plugin of the tree has its part in docs/config.md and its name in README.md. */
TEST(test_plugins)
{
    static char readme[1 << 16];
    FILE *file = fopen(PENSTOCK_SOURCE_DIR "/README.md", "rb");
    struct pst_plugin_list *list = NULL;
    struct pst_error err = {0};

    assert_non_null(file);
    assert_true(fread(readme, 1, sizeof readme - 1, file) > 1000);
    fclose(file);
    unsetenv("PENSTOCK_PLUGIN_PATH");
    docs_read();
    assert_int_equal(pst_plugin_list_create(NULL, &list, &err), PST_OK);
    assert_true(list->n_files >= 6);
    for (uint32_t i = 0; i < list->n_files; i++) {
        struct pst_plugin_file *plugin = &list->files[i];
        char heading[128], word[80];

        pst_plugin_file_describe(list, plugin);
        assert_non_null(plugin->plugin);
        assert_true(plugin->shipped);
        snprintf(heading, sizeof heading,
                 strcmp(plugin->kind, "memopt") == 0 ? "[[%s]] %s" : "[%s] %s", plugin->kind,
                 plugin->id);
        docs_expect(heading, plugin->plugin->params, plugin->plugin->n_params,
                    plugin->plugin->param_size);
        snprintf(word, sizeof word, "`%s`", plugin->id);
        if (strstr(readme, word) == NULL) {
            fail_msg("README.md does not name %s", word);
        }
    }
    pst_plugin_list_destroy(list);
}
