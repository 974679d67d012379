/* SPDX-License-Identifier: MIT */
/* The one user of libxml2, which makes a tree of the document; see schemas.h. */
#include "base/schemas.h"

#include <errno.h>
#include <libxml/parser.h>
#include <libxml/tree.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/config_private.h"
#include "base/text.h"

static void document_free(xmlDocPtr *document)
{
    xmlFreeDoc(*document);
}

static void context_free(xmlParserCtxtPtr *context)
{
    xmlFreeParserCtxt(*context);
}

/* ---- the document ---- */

static void ignore_entity(void *context, const xmlChar *name, int type, const xmlChar *public_id,
                          const xmlChar *system_id, xmlChar *content)
{
    (void)context;
    (void)name;
    (void)type;
    (void)public_id;
    (void)system_id;
    (void)content;
}

/* A document type is where entities would be declared: none is, and the parser goes no further. */
static void refuse_type(void *parser, const xmlChar *name, const xmlChar *external_id,
                        const xmlChar *system_id)
{
    xmlParserCtxtPtr context = parser;

    (void)name;
    (void)external_id;
    (void)system_id;
    *(int *)context->_private = context->input ? context->input->line : 1;
    xmlStopParser(context);
}

static int document_error(xmlParserCtxtPtr context, const char *path, struct err *err)
{
    const xmlError *found = xmlCtxtGetLastError(context);
    char reason[ERR_TEXT_MAX / 2];

    snprintf(reason, sizeof reason, "%s", found && found->message ? found->message : "no XML");
    reason[strcspn(reason, "\n")] = '\0';
    return err_set(err, EINVAL, "%s:%d: %s", path, found && found->line > 0 ? found->line : 1,
                   reason);
}

static int read_document(struct span text, const char *path, xmlDocPtr *ret_document,
                         struct err *err)
{
    cleanup(context_free) xmlParserCtxtPtr context = xmlNewParserCtxt();
    int type_line = 0;

    if (!context)
        return err_set(err, ENOMEM, "no memory");
    if (text.len == 0)
        return err_set(err, EINVAL, "%s:1: the file is empty", path);
    context->_private = &type_line;
    context->sax->internalSubset = refuse_type;
    context->sax->externalSubset = refuse_type;
    context->sax->entityDecl = ignore_entity;
    *ret_document = xmlCtxtReadMemory(context, text.data, (int)text.len, path, NULL,
                                      XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING |
                                          XML_PARSE_NOCDATA);
    if (type_line)
        return err_set(err, EINVAL, "%s:%d: a document type (DOCTYPE) is not allowed here", path,
                       type_line);
    return *ret_document ? 0 : document_error(context, path, err);
}

/* ---- what is in it ---- */

static bool is_element(const xmlNode *node, const char *name)
{
    return node->type == XML_ELEMENT_NODE && strcmp((const char *)node->name, name) == 0;
}

static xmlNodePtr first_child(xmlNodePtr parent, const char *name)
{
    xmlNodePtr child = parent ? parent->children : NULL;

    while (child && !is_element(child, name))
        child = child->next;
    return child;
}

static int add_schema(xmlNodePtr schema, const char *path, struct path_list *list, struct err *err)
{
    xmlChar *content = xmlNodeGetContent(schema);
    struct span written = span_text(content ? (const char *)content : "");
    cleanup_free char *absolute = schemas_absolute(path, written);
    struct err own = {""};
    int r = content && absolute ? 0 : -ENOMEM;

    if (r == 0 && written.len == 0)
        r = err_set(&own, EINVAL, "a schema without a path");
    else if (r == 0 && (strchr(" \t\r\n", written.data[0]) ||
                        strchr(" \t\r\n", written.data[written.len - 1])))
        r = err_set(&own, EINVAL,
                    "white space beside a path, which PHP programs take for a part of it");
    else if (r == 0)
        r = path_list_add(list, absolute, &own);
    xmlFree(content);
    if (r == -ENOMEM)
        return err_set(err, ENOMEM, "no memory");
    return r ? err_set(err, EINVAL, "%s:%ld: %s", path, xmlGetLineNo(schema), own.text) : 0;
}

static int add_schemas(xmlNodePtr schemas, const char *path, struct path_list *list,
                       struct err *err)
{
    int r = 0;

    for (xmlNodePtr node = schemas->children; r == 0 && node; node = node->next)
        if (is_element(node, "schema"))
            r = add_schema(node, path, list, err);
    if (r == 0 && list->count == 0)
        r = err_set(err, EINVAL, "%s:%ld: there is no schema in it", path, xmlGetLineNo(schemas));
    return r;
}

static int read_schemas(xmlDocPtr document, const char *path, const char *environment,
                        struct path_list *list, struct err *err)
{
    xmlNodePtr root = xmlDocGetRootElement(document);
    xmlNodePtr store = is_element(root, "lucinda_db") ? root : first_child(root, "lucinda_db");
    xmlNodePtr found = first_child(store, environment);
    xmlNodePtr schemas = first_child(found, "schemas");

    if (!store)
        return err_set(err, EINVAL, "%s:%ld: there is no lucinda_db in it", path,
                       xmlGetLineNo(root));
    if (!found)
        return err_set(err, EINVAL, "%s:%ld: there is no environment \"%s\" in it", path,
                       xmlGetLineNo(store), environment);
    if (!schemas)
        return err_set(err, EINVAL, "%s:%ld: there are no schemas in it", path,
                       xmlGetLineNo(found));
    return add_schemas(schemas, path, list, err);
}

char *schemas_absolute(const char *path, struct span written)
{
    cleanup_free char *directory = path_directory(path);
    cleanup_free char *name = strndup(written.data, written.len);

    return directory && name ? path_below(directory, name) : NULL;
}

int schemas_read(struct span text, const char *path, const char *environment,
                 struct path_list *ret_list, struct err *err)
{
    cleanup(document_free) xmlDocPtr document = NULL;
    struct path_list list = {NULL, 0};
    int r = read_document(text, path, &document, err);

    if (r == 0)
        r = read_schemas(document, path, environment, &list, err);
    if (r < 0)
        path_list_release(&list);
    else
        *ret_list = list;
    return r;
}
