<?php
// SPDX-License-Identifier: MIT
// Does to the schemas in a folder what it is told, a line of JSON a call on standard input:
//   [METHOD, SCHEMA, ARGUMENT...]
// and answers with a line of JSON each: what was returned or thrown, and PHP's warnings.
//
// usage: php run.php FOLDER

require __DIR__ . "/schema.php";

$base = $argv[1];
$warnings = [];
// A warning names the file; what is compared must not depend on where the schemas are.
set_error_handler(function ($level, $message) use ($base, &$warnings) {
    $warnings[] = str_replace("$base/", "", $message);
    return true;
});
umask(022);

while (($line = fgets(STDIN)) !== false) {
    $arguments = json_decode($line, true);
    $method = array_shift($arguments);
    $schema = array_shift($arguments);
    $warnings = [];
    $answer = [];
    if ($method === "plugIn") {
        $arguments[0] = "$base/$arguments[0]";
    }
    try {
        $answer["returns"] = (new Schema("$base/$schema"))->$method(...$arguments);
    } catch (Throwable $error) {
        $answer["throws"] = get_class($error) . ": " . str_replace("$base/", "", $error->getMessage());
    }
    echo json_encode($answer + ["warnings" => $warnings], JSON_THROW_ON_ERROR), "\n";
    flush();
}
