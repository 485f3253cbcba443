/* SPDX-License-Identifier: Apache-2.0
 *
 * Every file of configs/models builds its model, and docs/models.md tells its number of parameters.
 */
#include <dirent.h>

#include "config/config.h"
#include "unit/graph/model_support.h"

#define FOLDER PENSTOCK_SOURCE_DIR "/configs/models"

static char documented[1 << 16];

static int read_document(void **state)
{
    FILE *file = fopen(PENSTOCK_SOURCE_DIR "/docs/models.md", "rb");

    assert_non_null(file);
    assert_true(fread(documented, 1, sizeof documented - 1, file) > 1000);
    assert_true(feof(file));
    fclose(file);
    return 0;
}

static struct pst_graph *build_config(const char *path)
{
    static const char *const others[] = {"use", NULL};
    const struct pst_model_builder *builder;
    struct pst_config_node *table;
    struct pst_config *config = NULL;
    struct pst_arena arena = {0};
    struct pst_graph *graph = NULL;
    struct pst_error err = {0};
    void *params;

    if (pst_config_load(path, NULL, 0, &config, &err) != PST_OK) {
        fail_msg("%s: %s", path, err.message);
    }
    table = pst_config_get(config->root, "model");
    assert_non_null(table);
    builder = pst_model_builder_find(pst_config_get(table, "use")->value.string);
    assert_non_null(builder);
    params = pst_arena_alloc(&arena, builder->config_size, 0);
    if (pst_params_fill(builder->params, builder->n_params, sizeof(struct pst_param), table,
                        "[model]", others, &arena, params, &err) != PST_OK ||
        pst_model_build(builder, params, PST_F32, &graph, &err) != PST_OK) {
        fail_msg("%s: %s", path, err.message);
    }
    pst_arena_finish(&arena);
    pst_config_destroy(config);
    return graph;
}

/* "1,234,567" */
static void group_digits(uint64_t n, char text[32])
{
    char plain[32];
    size_t length, used = 0;

    snprintf(plain, sizeof plain, "%llu", (unsigned long long)n);
    length = strlen(plain);
    for (size_t i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            text[used++] = ',';
        }
        text[used++] = plain[i];
    }
    text[used] = '\0';
}

TEST(configs_are_documented)
{
    DIR *folder = opendir(FOLDER);
    struct dirent *entry;
    uint32_t n = 0;

    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        char path[512], start[320], count[40], digits[32];
        const char *row;
        struct pst_graph *graph;

        if (strstr(entry->d_name, ".toml") == NULL) {
            continue;
        }
        snprintf(path, sizeof path, FOLDER "/%s", entry->d_name);
        graph = build_config(path);
        group_digits(pst_graph_parameters(graph), digits);
        assert_int_equal(pst_graph_parameters(graph), count_parameters(graph));
        snprintf(start, sizeof start, "\n| [%.*s](../configs/models/%s) |",
                 (int)(strlen(entry->d_name) - 5), entry->d_name, entry->d_name);
        snprintf(count, sizeof count, "| %s |\n", digits);
        row = strstr(documented, start);
        if (row == NULL || strstr(row, count) == NULL ||
            strstr(row, count) > strchr(row + 1, '\n')) {
            fail_msg("docs/models.md: %s ... %s", start + 1, count);
        }
        pst_graph_destroy(graph);
        n++;
    }
    closedir(folder);
    assert_true(n >= 40);
}

TEST_GROUP(read_document, NULL)
