//! The declarations of all functions: names, overloads, and what runs.

use super::{
    Function, Implementation, Overload, authorizer, format_string, lists, named_format, net, patterns,
    quantity, semver, standard, strings, url,
};
use crate::{
    ast::operator,
    types::Type,
    value::{Evaluated, Val},
};

const A: Type = Type::Param("A");
const B: Type = Type::Param("B");
const BOOL: Type = Type::Bool;
const INT: Type = Type::Int;
const UINT: Type = Type::Uint;
const DOUBLE: Type = Type::Double;
const STRING: Type = Type::String;
const BYTES: Type = Type::Bytes;
const TIMESTAMP: Type = Type::Timestamp;
const DURATION: Type = Type::Duration;
const DYN: Type = Type::Dyn;

fn list(items: Type) -> Type {
    Type::list(items)
}

fn map_ab() -> Type {
    Type::map(A, B)
}

fn overload(id: &'static str, params: impl Into<Vec<Type>>, result: Type) -> Overload {
    Overload { id, member: false, params: params.into(), result }
}

fn member(id: &'static str, params: impl Into<Vec<Type>>, result: Type) -> Overload {
    Overload { id, member: true, params: params.into(), result }
}

fn plain(
    name: &'static str,
    run: for<'a> fn(&[Val<'a>]) -> Evaluated<'a>,
    overloads: impl Into<Vec<Overload>>,
) -> Function {
    Function { name, overloads: overloads.into(), implementation: Implementation::Plain(run) }
}

fn special(name: &'static str, overloads: impl Into<Vec<Overload>>) -> Function {
    Function { name, overloads: overloads.into(), implementation: Implementation::Special }
}

/// Every function there is.
pub(super) fn all() -> Vec<Function> {
    let mut functions = operators();
    functions.extend(conversions());
    functions.extend(times());
    functions.extend(texts());
    functions.extend(collections());
    functions.extend(optionals());
    functions.extend(kubernetes());
    functions.extend(authorization());
    functions
}

fn operators() -> Vec<Function> {
    vec![
        special(operator::CONDITIONAL, [overload("conditional", [BOOL, A, A], A)]),
        special(operator::AND, [overload("logical_and", [BOOL, BOOL], BOOL)]),
        special(operator::OR, [overload("logical_or", [BOOL, BOOL], BOOL)]),
        plain(operator::NOT, standard::not, [overload("logical_not", [BOOL], BOOL)]),
        special(operator::NOT_STRICTLY_FALSE, [overload("not_strictly_false", [BOOL], BOOL)]),
        special(operator::EQUALS, [overload("equals", [A, A], BOOL)]),
        special(operator::NOT_EQUALS, [overload("not_equals", [A, A], BOOL)]),
        plain(
            operator::ADD,
            standard::add,
            [
                overload("add_bytes", [BYTES, BYTES], BYTES),
                overload("add_double", [DOUBLE, DOUBLE], DOUBLE),
                overload("add_duration_duration", [DURATION, DURATION], DURATION),
                overload("add_duration_timestamp", [DURATION, TIMESTAMP], TIMESTAMP),
                overload("add_timestamp_duration", [TIMESTAMP, DURATION], TIMESTAMP),
                overload("add_int64", [INT, INT], INT),
                overload("add_list", [list(A), list(A)], list(A)),
                overload("add_string", [STRING, STRING], STRING),
                overload("add_uint64", [UINT, UINT], UINT),
            ],
        ),
        plain(
            operator::DIVIDE,
            standard::divide,
            [
                overload("divide_double", [DOUBLE, DOUBLE], DOUBLE),
                overload("divide_int64", [INT, INT], INT),
                overload("divide_uint64", [UINT, UINT], UINT),
            ],
        ),
        plain(
            operator::MODULO,
            standard::modulo,
            [overload("modulo_int64", [INT, INT], INT), overload("modulo_uint64", [UINT, UINT], UINT)],
        ),
        plain(
            operator::MULTIPLY,
            standard::multiply,
            [
                overload("multiply_double", [DOUBLE, DOUBLE], DOUBLE),
                overload("multiply_int64", [INT, INT], INT),
                overload("multiply_uint64", [UINT, UINT], UINT),
            ],
        ),
        plain(
            operator::NEGATE,
            standard::negate,
            [overload("negate_double", [DOUBLE], DOUBLE), overload("negate_int64", [INT], INT)],
        ),
        plain(
            operator::SUBTRACT,
            standard::subtract,
            [
                overload("subtract_double", [DOUBLE, DOUBLE], DOUBLE),
                overload("subtract_duration_duration", [DURATION, DURATION], DURATION),
                overload("subtract_int64", [INT, INT], INT),
                overload("subtract_timestamp_duration", [TIMESTAMP, DURATION], TIMESTAMP),
                overload("subtract_timestamp_timestamp", [TIMESTAMP, TIMESTAMP], DURATION),
                overload("subtract_uint64", [UINT, UINT], UINT),
            ],
        ),
        plain(operator::LESS, standard::less, comparison(["less_string", "less_bytes", "less"])),
        plain(
            operator::LESS_EQUALS,
            standard::less_equals,
            comparison(["less_equals_string", "less_equals_bytes", "less_equals"]),
        ),
        plain(
            operator::GREATER,
            standard::greater,
            comparison(["greater_string", "greater_bytes", "greater"]),
        ),
        plain(
            operator::GREATER_EQUALS,
            standard::greater_equals,
            comparison(["greater_equals_string", "greater_equals_bytes", "greater_equals"]),
        ),
        special(
            operator::INDEX,
            [
                overload("index_list", [list(A), INT], A),
                overload("index_map", [map_ab(), A], B),
                overload("optional_list_index_int", [Type::optional(list(A)), INT], Type::optional(A)),
                overload("optional_map_index_value", [Type::optional(map_ab()), A], Type::optional(B)),
            ],
        ),
        plain(
            operator::IN,
            standard::contained_in,
            [overload("in_list", [A, list(A)], BOOL), overload("in_map", [A, map_ab()], BOOL)],
        ),
    ]
}

/// Overloads of an order operator; the names are those for texts, bytes and all others.
fn comparison([string, bytes, other]: [&'static str; 3]) -> Vec<Overload> {
    let same = |ty: Type| [ty.clone(), ty];
    let mut overloads = vec![overload(other, same(BOOL), BOOL)];
    for one in [INT, UINT, DOUBLE] {
        for two in [INT, UINT, DOUBLE] {
            overloads.push(overload(other, [one.clone(), two], BOOL));
        }
    }
    overloads.push(overload(string, same(STRING), BOOL));
    overloads.push(overload(bytes, same(BYTES), BOOL));
    overloads.push(overload(other, same(TIMESTAMP), BOOL));
    overloads.push(overload(other, same(DURATION), BOOL));
    overloads
}

fn conversions() -> Vec<Function> {
    vec![
        plain(
            "size",
            standard::size,
            [
                overload("size_bytes", [BYTES], INT),
                member("bytes_size", [BYTES], INT),
                overload("size_list", [list(A)], INT),
                member("list_size", [list(A)], INT),
                overload("size_map", [map_ab()], INT),
                member("map_size", [map_ab()], INT),
                overload("size_string", [STRING], INT),
                member("string_size", [STRING], INT),
            ],
        ),
        plain("type", standard::type_of, [overload("type", [A], Type::type_of(A))]),
        plain("dyn", standard::dynamic, [overload("to_dyn", [A], DYN)]),
        plain(
            "bool",
            standard::to_bool,
            [overload("bool_to_bool", [BOOL], BOOL), overload("string_to_bool", [STRING], BOOL)],
        ),
        plain(
            "bytes",
            standard::to_bytes,
            [overload("bytes_to_bytes", [BYTES], BYTES), overload("string_to_bytes", [STRING], BYTES)],
        ),
        plain(
            "double",
            standard::to_double,
            [
                overload("double_to_double", [DOUBLE], DOUBLE),
                overload("int64_to_double", [INT], DOUBLE),
                overload("string_to_double", [STRING], DOUBLE),
                overload("uint64_to_double", [UINT], DOUBLE),
            ],
        ),
        plain(
            "duration",
            standard::to_duration,
            [
                overload("duration_to_duration", [DURATION], DURATION),
                overload("int64_to_duration", [INT], DURATION),
                overload("string_to_duration", [STRING], DURATION),
            ],
        ),
        plain(
            "int",
            standard::to_int,
            [
                overload("int64_to_int64", [INT], INT),
                overload("double_to_int64", [DOUBLE], INT),
                overload("duration_to_int64", [DURATION], INT),
                overload("string_to_int64", [STRING], INT),
                overload("timestamp_to_int64", [TIMESTAMP], INT),
                overload("uint64_to_int64", [UINT], INT),
            ],
        ),
        plain(
            "string",
            standard::to_string,
            [
                overload("string_to_string", [STRING], STRING),
                overload("bool_to_string", [BOOL], STRING),
                overload("bytes_to_string", [BYTES], STRING),
                overload("double_to_string", [DOUBLE], STRING),
                overload("duration_to_string", [DURATION], STRING),
                overload("int64_to_string", [INT], STRING),
                overload("timestamp_to_string", [TIMESTAMP], STRING),
                overload("uint64_to_string", [UINT], STRING),
                overload("ip_to_string", [net::IP], STRING),
                overload("cidr_to_string", [net::CIDR], STRING),
            ],
        ),
        plain(
            "timestamp",
            standard::to_timestamp,
            [
                overload("timestamp_to_timestamp", [TIMESTAMP], TIMESTAMP),
                overload("int64_to_timestamp", [INT], TIMESTAMP),
                overload("string_to_timestamp", [STRING], TIMESTAMP),
            ],
        ),
        plain(
            "uint",
            standard::to_uint,
            [
                overload("uint64_to_uint64", [UINT], UINT),
                overload("double_to_uint64", [DOUBLE], UINT),
                overload("int64_to_uint64", [INT], UINT),
                overload("string_to_uint64", [STRING], UINT),
            ],
        ),
    ]
}

fn times() -> Vec<Function> {
    let of_timestamp = |name, run: for<'a> fn(&[Val<'a>]) -> Evaluated<'a>, of_duration: bool| {
        let mut overloads = vec![
            member("timestamp_getter", [TIMESTAMP], INT),
            member("timestamp_getter_with_tz", [TIMESTAMP, STRING], INT),
        ];
        if of_duration {
            overloads.push(member("duration_getter", [DURATION], INT));
        }
        plain(name, run, overloads)
    };
    vec![
        of_timestamp("getFullYear", standard::get_full_year, false),
        of_timestamp("getMonth", standard::get_month, false),
        of_timestamp("getDayOfYear", standard::get_day_of_year, false),
        of_timestamp("getDayOfMonth", standard::get_day_of_month, false),
        of_timestamp("getDate", standard::get_date, false),
        of_timestamp("getDayOfWeek", standard::get_day_of_week, false),
        of_timestamp("getHours", standard::get_hours, true),
        of_timestamp("getMinutes", standard::get_minutes, true),
        of_timestamp("getSeconds", standard::get_seconds, true),
        of_timestamp("getMilliseconds", standard::get_milliseconds, true),
    ]
}

fn texts() -> Vec<Function> {
    vec![
        plain("contains", strings::contains, [member("contains_string", [STRING, STRING], BOOL)]),
        plain("endsWith", strings::ends_with, [member("ends_with_string", [STRING, STRING], BOOL)]),
        plain("startsWith", strings::starts_with, [member("starts_with_string", [STRING, STRING], BOOL)]),
        Function {
            name: "matches",
            overloads: vec![
                overload("matches", [STRING, STRING], BOOL),
                member("matches_string", [STRING, STRING], BOOL),
            ],
            implementation: Implementation::Pattern(patterns::matches),
        },
        Function {
            name: "find",
            overloads: vec![member("string_find_string", [STRING, STRING], STRING)],
            implementation: Implementation::Pattern(patterns::find),
        },
        Function {
            name: "findAll",
            overloads: vec![
                member("string_find_all_string", [STRING, STRING], list(STRING)),
                member("string_find_all_string_int", [STRING, STRING, INT], list(STRING)),
            ],
            implementation: Implementation::Pattern(patterns::find_all),
        },
        plain("charAt", strings::char_at, [member("string_char_at_int", [STRING, INT], STRING)]),
        plain(
            "indexOf",
            lists::index_of,
            [
                member("list_a_index_of_int", [list(A), A], INT),
                member("string_index_of_string", [STRING, STRING], INT),
                member("string_index_of_string_int", [STRING, STRING, INT], INT),
            ],
        ),
        plain(
            "lastIndexOf",
            lists::last_index_of,
            [
                member("list_a_last_index_of_int", [list(A), A], INT),
                member("string_last_index_of_string", [STRING, STRING], INT),
                member("string_last_index_of_string_int", [STRING, STRING, INT], INT),
            ],
        ),
        plain("lowerAscii", strings::lower_ascii, [member("string_lower_ascii", [STRING], STRING)]),
        plain("upperAscii", strings::upper_ascii, [member("string_upper_ascii", [STRING], STRING)]),
        plain("trim", strings::trim, [member("string_trim", [STRING], STRING)]),
        plain(
            "replace",
            strings::replace,
            [
                member("string_replace_string_string", [STRING, STRING, STRING], STRING),
                member("string_replace_string_string_int", [STRING, STRING, STRING, INT], STRING),
            ],
        ),
        plain(
            "split",
            strings::split,
            [
                member("string_split_string", [STRING, STRING], list(STRING)),
                member("string_split_string_int", [STRING, STRING, INT], list(STRING)),
            ],
        ),
        plain(
            "substring",
            strings::substring,
            [
                member("string_substring_int", [STRING, INT], STRING),
                member("string_substring_int_int", [STRING, INT, INT], STRING),
            ],
        ),
        plain(
            "join",
            strings::join,
            [
                member("list_join", [list(STRING)], STRING),
                member("list_join_string", [list(STRING), STRING], STRING),
            ],
        ),
        plain("format", format_string::format, [member("string_format", [STRING, list(DYN)], STRING)]),
        plain("strings.quote", strings::quote, [overload("strings_quote", [STRING], STRING)]),
    ]
}

/// One overload for each type whose values have an order.
fn comparable(id: [&'static str; 8], make: impl Fn(&'static str, Type) -> Overload) -> Vec<Overload> {
    id.into_iter()
        .zip([INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES])
        .map(|(id, ty)| make(id, ty))
        .collect()
}

fn collections() -> Vec<Function> {
    let same = |id: &'static str| [id; 8];
    vec![
        plain(
            "isSorted",
            lists::is_sorted,
            comparable(same("list_is_sorted_bool"), |id, ty| member(id, [list(ty)], BOOL)),
        ),
        plain(
            "sum",
            lists::sum,
            [INT, UINT, DOUBLE, DURATION].map(|ty| member("list_sum", [list(ty.clone())], ty)),
        ),
        plain("max", lists::max, comparable(same("list_max"), |id, ty| member(id, [list(ty.clone())], ty))),
        plain("min", lists::min, comparable(same("list_min"), |id, ty| member(id, [list(ty.clone())], ty))),
        plain("slice", lists::slice, [member("list_slice", [list(A), INT, INT], list(A))]),
        plain(
            "flatten",
            lists::flatten,
            [
                member("list_flatten", [list(list(A))], list(A)),
                member("list_flatten_int", [list(DYN), INT], list(DYN)),
            ],
        ),
        plain("sort", lists::sort, comparable(SORT, |id, ty| member(id, [list(ty.clone())], list(ty)))),
        plain(
            operator::SORT_BY_KEYS,
            lists::sort_by_keys,
            comparable(SORT_BY, |id, ty| member(id, [list(A), list(ty)], list(A))),
        ),
        plain("lists.range", lists::range, [overload("lists_range", [INT], list(INT))]),
        plain("reverse", lists::reverse, [member("list_reverse", [list(A)], list(A))]),
        plain("distinct", lists::distinct, [member("list_distinct", [list(A)], list(A))]),
        plain(
            "sets.contains",
            lists::sets_contains,
            [overload("list_sets_contains_list", [list(A), list(A)], BOOL)],
        ),
        plain(
            "sets.equivalent",
            lists::sets_equivalent,
            [overload("list_sets_equivalent_list", [list(A), list(A)], BOOL)],
        ),
        plain(
            "sets.intersects",
            lists::sets_intersects,
            [overload("list_sets_intersects_list", [list(A), list(A)], BOOL)],
        ),
        plain(
            operator::MAP_INSERT,
            lists::map_insert,
            [
                overload("@mapInsert_map_key_value", [map_ab(), A, B], map_ab()),
                overload("@mapInsert_map_map", [map_ab(), map_ab()], map_ab()),
            ],
        ),
    ]
}

/// Overloads of `sort`; texts and bytes cost more than the rest.
const SORT: [&str; 8] = [
    "list_sort",
    "list_sort",
    "list_sort",
    "list_sort",
    "list_sort",
    "list_sort",
    "list_text_sort",
    "list_text_sort",
];

const SORT_BY: [&str; 8] = [
    "list_sort_by",
    "list_sort_by",
    "list_sort_by",
    "list_sort_by",
    "list_sort_by",
    "list_sort_by",
    "list_text_sort_by",
    "list_text_sort_by",
];

fn optionals() -> Vec<Function> {
    let optional = Type::optional;
    vec![
        plain("optional.of", lists::optional_of, [overload("optional_of", [A], optional(A))]),
        plain(
            "optional.ofNonZeroValue",
            lists::optional_of_non_zero,
            [overload("optional_ofNonZeroValue", [A], optional(A))],
        ),
        plain("optional.none", lists::optional_none, [overload("optional_none", [], optional(A))]),
        plain("value", lists::optional_value, [member("optional_value", [optional(A)], A)]),
        plain("hasValue", lists::optional_has_value, [member("optional_hasValue", [optional(A)], BOOL)]),
        special("or", [member("optional_or_optional", [optional(A), optional(A)], optional(A))]),
        special("orValue", [member("optional_orValue_value", [optional(A), A], A)]),
        special(operator::OPT_SELECT, [overload("select_optional_field", [DYN, STRING], optional(A))]),
        special(
            operator::OPT_INDEX,
            [
                overload("list_optindex_optional_int", [list(A), INT], optional(A)),
                overload("optional_list_optindex_optional_int", [optional(list(A)), INT], optional(A)),
                overload("map_optindex_optional_value", [map_ab(), A], optional(B)),
                overload("optional_map_optindex_optional_value", [optional(map_ab()), A], optional(B)),
            ],
        ),
        plain("last", lists::last, [member("list_last", [list(A)], optional(A))]),
        plain("first", lists::first, [member("list_first", [list(A)], optional(A))]),
        plain(
            "optional.unwrap",
            lists::optional_unwrap,
            [overload("optional_unwrap", [list(optional(A))], list(A))],
        ),
        plain(
            "unwrapOpt",
            lists::optional_unwrap,
            [member("optional_unwrapOpt", [list(optional(A))], list(A))],
        ),
    ]
}

fn kubernetes() -> Vec<Function> {
    let quantity = || Type::object("kubernetes.Quantity");
    let semver = || Type::object("kubernetes.Semver");
    let url = || Type::object("kubernetes.URL");
    let format = || Type::object("kubernetes.NamedFormat");
    let (ip, cidr) = (net::IP, net::CIDR);
    let mut functions = vec![
        plain("quantity", quantity::quantity, [overload("string_to_quantity", [STRING], quantity())]),
        plain("isQuantity", quantity::is_quantity, [overload("is_quantity_string", [STRING], BOOL)]),
        plain("sign", quantity::sign, [overload("quantity_sign", [quantity()], INT)]),
        plain("asInteger", quantity::as_integer, [member("quantity_get_int", [quantity()], INT)]),
        plain("isInteger", quantity::is_integer, [member("quantity_is_integer", [quantity()], BOOL)]),
        plain(
            "asApproximateFloat",
            quantity::as_approximate_float,
            [member("quantity_get_float", [quantity()], DOUBLE)],
        ),
        plain(
            "add",
            quantity::add,
            [
                member("quantity_add", [quantity(), quantity()], quantity()),
                member("quantity_add_int", [quantity(), INT], quantity()),
            ],
        ),
        plain(
            "sub",
            quantity::sub,
            [
                member("quantity_sub", [quantity(), quantity()], quantity()),
                member("quantity_sub_int", [quantity(), INT], quantity()),
            ],
        ),
        plain(
            "isGreaterThan",
            semver::is_greater_than,
            [
                member("quantity_is_greater_than", [quantity(), quantity()], BOOL),
                member("semver_is_greater_than", [semver(), semver()], BOOL),
            ],
        ),
        plain(
            "isLessThan",
            semver::is_less_than,
            [
                member("quantity_is_less_than", [quantity(), quantity()], BOOL),
                member("semver_is_less_than", [semver(), semver()], BOOL),
            ],
        ),
        plain(
            "compareTo",
            semver::compare_to,
            [
                member("quantity_compare_to", [quantity(), quantity()], INT),
                member("semver_compare_to", [semver(), semver()], INT),
            ],
        ),
        plain(
            "semver",
            semver::semver,
            [
                overload("string_to_semver", [STRING], semver()),
                overload("string_bool_to_semver", [STRING, BOOL], semver()),
            ],
        ),
        plain(
            "isSemver",
            semver::is_semver,
            [
                overload("is_semver_string", [STRING], BOOL),
                overload("is_semver_string_bool", [STRING, BOOL], BOOL),
            ],
        ),
        plain("major", semver::major, [member("semver_major", [semver()], INT)]),
        plain("minor", semver::minor, [member("semver_minor", [semver()], INT)]),
        plain("patch", semver::patch, [member("semver_patch", [semver()], INT)]),
        plain("url", url::url, [overload("string_to_url", [STRING], url())]),
        plain("isURL", url::is_url, [overload("is_url_string", [STRING], BOOL)]),
        plain("getScheme", url::get_scheme, [member("url_get_scheme", [url()], STRING)]),
        plain("getHost", url::get_host, [member("url_get_host", [url()], STRING)]),
        plain("getHostname", url::get_hostname, [member("url_get_hostname", [url()], STRING)]),
        plain("getPort", url::get_port, [member("url_get_port", [url()], STRING)]),
        plain("getEscapedPath", url::get_escaped_path, [member("url_get_escaped_path", [url()], STRING)]),
        plain(
            "getQuery",
            url::get_query,
            [member("url_get_query", [url()], Type::map(STRING, list(STRING)))],
        ),
        plain(
            "ip",
            net::ip,
            [overload("string_to_ip", [STRING], ip.clone()), member("cidr_ip", [cidr.clone()], ip.clone())],
        ),
        plain("isIP", net::is_ip, [overload("is_ip", [STRING], BOOL)]),
        plain("ip.isCanonical", net::is_canonical, [overload("ip_is_canonical", [STRING], BOOL)]),
        plain("family", net::family, [member("ip_family", [ip.clone()], INT)]),
        plain("isUnspecified", net::is_unspecified, [member("ip_is_unspecified", [ip.clone()], BOOL)]),
        plain("isLoopback", net::is_loopback, [member("ip_is_loopback", [ip.clone()], BOOL)]),
        plain(
            "isLinkLocalMulticast",
            net::is_link_local_multicast,
            [member("ip_is_link_local_multicast", [ip.clone()], BOOL)],
        ),
        plain(
            "isLinkLocalUnicast",
            net::is_link_local_unicast,
            [member("ip_is_link_local_unicast", [ip.clone()], BOOL)],
        ),
        plain(
            "isGlobalUnicast",
            net::is_global_unicast,
            [member("ip_is_global_unicast", [ip.clone()], BOOL)],
        ),
        plain("cidr", net::cidr, [overload("string_to_cidr", [STRING], cidr.clone())]),
        plain("isCIDR", net::is_cidr, [overload("is_cidr", [STRING], BOOL)]),
        plain(
            "containsIP",
            net::contains_ip,
            [
                member("cidr_contains_ip_string", [cidr.clone(), STRING], BOOL),
                member("cidr_contains_ip_ip", [cidr.clone(), ip], BOOL),
            ],
        ),
        plain(
            "containsCIDR",
            net::contains_cidr,
            [
                member("cidr_contains_cidr_string", [cidr.clone(), STRING], BOOL),
                member("cidr_contains_cidr", [cidr.clone(), cidr.clone()], BOOL),
            ],
        ),
        plain("prefixLength", net::prefix_length, [member("cidr_prefix_length", [cidr.clone()], INT)]),
        plain("masked", net::masked, [member("cidr_masked", [cidr.clone()], cidr)]),
        plain(
            "validate",
            named_format::validate,
            [member("format-validate", [format(), STRING], Type::optional(list(STRING)))],
        ),
        plain(
            "format.named",
            named_format::named,
            [overload("format-named", [STRING], Type::optional(format()))],
        ),
    ];
    functions.extend(
        named_format::constructors().map(|(name, run)| {
            plain(name, run, [overload(name, [], Type::object("kubernetes.NamedFormat"))])
        }),
    );
    functions
}

fn authorization() -> Vec<Function> {
    let authorizer = || Type::object(authorizer::AUTHORIZER);
    let path = || Type::object(authorizer::PATH_CHECK);
    let group = || Type::object(authorizer::GROUP_CHECK);
    let resource = || Type::object(authorizer::RESOURCE_CHECK);
    let decision = || Type::object(authorizer::DECISION);
    vec![
        plain("path", authorizer::path, [member("authorizer_path", [authorizer(), STRING], path())]),
        plain("group", authorizer::group, [member("authorizer_group", [authorizer(), STRING], group())]),
        plain(
            "serviceAccount",
            authorizer::service_account,
            [member("authorizer_serviceaccount", [authorizer(), STRING, STRING], authorizer())],
        ),
        plain(
            "resource",
            authorizer::resource,
            [member("groupcheck_resource", [group(), STRING], resource())],
        ),
        plain(
            "subresource",
            authorizer::subresource,
            [member("resourcecheck_subresource", [resource(), STRING], resource())],
        ),
        plain(
            "namespace",
            authorizer::namespace,
            [member("resourcecheck_namespace", [resource(), STRING], resource())],
        ),
        plain("name", authorizer::name, [member("resourcecheck_name", [resource(), STRING], resource())]),
        plain(
            "fieldSelector",
            authorizer::field_selector,
            [member("authorizer_fieldselector", [resource(), STRING], resource())],
        ),
        plain(
            "labelSelector",
            authorizer::label_selector,
            [member("authorizer_labelselector", [resource(), STRING], resource())],
        ),
        plain(
            "check",
            authorizer::check,
            [
                member("pathcheck_check", [path(), STRING], decision()),
                member("resourcecheck_check", [resource(), STRING], decision()),
            ],
        ),
        plain("errored", authorizer::errored, [member("decision_errored", [decision()], BOOL)]),
        plain("error", authorizer::error, [member("decision_error", [decision()], STRING)]),
        plain("allowed", authorizer::allowed, [member("decision_allowed", [decision()], BOOL)]),
        plain("reason", authorizer::reason, [member("decision_reason", [decision()], STRING)]),
    ]
}
