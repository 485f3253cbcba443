/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the figures of a page come from: program, machine, configs, plugins.
 */
#include "base/util.h"
#include "page/page_impl.h"
#include "tune/provenance.h"

static void put_item(const struct pst_sheet *sheet, const char *title, const char *text)
{
    if (text == NULL || text[0] == '\0') {
        return;
    }
    fprintf(sheet->out, "<dt>%s</dt><dd>", title);
    pst_sheet_text(sheet, text);
    fputs("</dd>\n", sheet->out);
}

static void put_machine(struct pst_sheet *sheet, const struct pst_provenance *p)
{
    char bytes[32];

    fputs("<dl>\n", sheet->out);
    put_item(sheet, "penstock", p->program == NULL ? PENSTOCK_VERSION : p->program);
    put_item(sheet, "program, XXH3", p->program_digest);
    put_item(sheet, "time", p->time);
    put_item(sheet, "host", p->host);
    put_item(sheet, "processor", p->cpu);
    put_item(sheet, "kernel", p->kernel);
    if (p->cores > 0) {
        put_item(sheet, "cores, memory",
                 pst_arena_printf(&sheet->arena, "%u, %s", p->cores,
                                  pst_format_bytes(bytes, p->memory_bytes)));
        put_item(sheet, "load at the start",
                 pst_arena_printf(&sheet->arena, "%.2f, %.2f, %.2f", p->load[0], p->load[1],
                                  p->load[2]));
    }
    fputs("</dl>\n", sheet->out);
}

static void put_plugins(const struct pst_sheet *sheet, const struct pst_provenance_config *config)
{
    if (config->n_plugins == 0) {
        return;
    }
    fputs(
        "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">plugin</th><th "
        "scope=\"col\">version</th><th scope=\"col\">parameters</th><th scope=\"col\">XXH3 of the "
        "file</th></tr></thead>\n<tbody>\n",
        sheet->out);
    for (uint32_t i = 0; i < config->n_plugins; i++) {
        const struct pst_provenance_plugin *plugin = &config->plugins[i];

        fputs("<tr><td>", sheet->out);
        pst_sheet_text(sheet, plugin->kind);
        fputs(" ", sheet->out);
        pst_sheet_text(sheet, plugin->id);
        fputs("</td><td>", sheet->out);
        pst_sheet_text(sheet, plugin->version);
        fputs("</td><td class=\"why\"><code>", sheet->out);
        pst_sheet_text(sheet, plugin->parameters);
        fputs("</code></td><td><code>", sheet->out);
        pst_sheet_text(sheet, plugin->digest);
        fputs("</code></td></tr>\n", sheet->out);
    }
    fputs("</tbody></table></div>\n", sheet->out);
}

static void put_config(struct pst_sheet *sheet, const struct pst_provenance_config *config)
{
    fputs("<dl>\n", sheet->out);
    put_item(sheet, "config", config->path);
    put_item(sheet, "model", config->model);
    if (config->model_digest != 0) {
        put_item(
            sheet, "its graph, XXH3",
            pst_arena_printf(&sheet->arena, "%016llx", (unsigned long long)config->model_digest));
    }
    put_item(sheet, "profile", config->profile);
    put_item(sheet, "profile, XXH3", config->profile_digest);
    put_item(sheet, "seed", pst_arena_printf(&sheet->arena, "%lld", (long long)config->seed));
    put_item(sheet, "device", config->device);
    put_item(sheet, "transport", config->transport);
    fputs("</dl>\n", sheet->out);
    put_plugins(sheet, config);
    if (config->config_json != NULL) {
        fputs("<details>\n<summary>Effective config</summary>\n<p><code>", sheet->out);
        pst_put_escaped(sheet->out, config->config_json);
        fputs("</code></p>\n</details>\n", sheet->out);
    }
}

void pst_sheet_origin(struct pst_sheet *sheet)
{
    const struct pst_provenance *provenance = &sheet->page->result->provenance;

    fputs("<section id=\"origin\">\n<h2>Environment</h2>\n", sheet->out);
    put_machine(sheet, provenance);
    for (uint32_t i = 0; i < provenance->n_configs; i++) {
        put_config(sheet, &provenance->configs[i]);
    }
    fputs("</section>\n", sheet->out);
}
