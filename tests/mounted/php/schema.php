<?php
// SPDX-License-Identifier: MIT
// A schema of the tag store as its PHP client treats it: a folder, in it a file of JSON for each
// key. Every method makes the same system calls as the client's, in the same order.

class StoreError extends Exception {}

final class Schema
{
    private const SUFFIX = ".json";
    private const PROBE = "__test__"; // no item: it has no suffix

    public function __construct(private string $folder) {}

    // Keys and files

    private static function key(array $tags): string
    {
        foreach ($tags as $tag) {
            if (!preg_match('/^[a-z0-9-]+$/D', $tag)) {
                throw new StoreError("bad tag");
            }
        }
        if (!$tags) {
            throw new StoreError("no tag");
        }
        sort($tags); // two numeric tags as numbers, others as bytes
        return implode("_", $tags);
    }

    private function file(array $tags): string
    {
        return "$this->folder/" . self::key($tags) . self::SUFFIX;
    }

    private function existing(array $tags): string
    {
        $file = $this->file($tags);
        if (!file_exists($file)) {
            throw new StoreError("no such key");
        }
        return $file;
    }

    /** Names in the folder, one at a time: what is done to one happens while the folder is read. */
    private function names(): Generator
    {
        $directory = opendir($this->folder);
        if (!$directory) {
            throw new StoreError("no folder");
        }
        while (($name = readdir($directory)) !== false) {
            if ($name !== "." && $name !== "..") {
                yield $name;
            }
        }
        closedir($directory);
    }

    // One value

    public function set(array $tags, mixed $value): int|false
    {
        return file_put_contents($this->file($tags), json_encode($value, JSON_THROW_ON_ERROR));
    }

    public function get(array $tags): mixed
    {
        $text = file_get_contents($this->existing($tags));
        return json_decode($text, true, 512, JSON_THROW_ON_ERROR);
    }

    public function has(array $tags): bool
    {
        return file_exists($this->file($tags));
    }

    public function delete(array $tags): bool
    {
        return unlink($this->existing($tags));
    }

    /** Adds STEP under the file's lock, which is given away before the file is closed. */
    public function update(array $tags, int $step): int
    {
        $stream = fopen($this->existing($tags), "a+");
        flock($stream, LOCK_EX);
        rewind($stream);
        $value = json_decode(fgets($stream), true, 512, JSON_THROW_ON_ERROR) + $step;
        ftruncate($stream, 0);
        fwrite($stream, json_encode($value));
        flock($stream, LOCK_UN);
        fclose($stream);
        return (int) $value;
    }

    // Many values

    public function getAll(): array
    {
        $keys = [];
        foreach ($this->names() as $name) {
            $keys[] = str_replace(self::SUFFIX, "", $name);
        }
        sort($keys, SORT_STRING);
        return $keys;
    }

    public function getByTag(string $tag): array
    {
        $matching = fn ($key) => in_array($tag, explode("_", $key), true);
        return array_values(array_filter($this->getAll(), $matching));
    }

    public function capacity(): int
    {
        return iterator_count($this->names());
    }

    private function deleteWhere(callable $goes): int
    {
        $deleted = 0;
        foreach ($this->names() as $name) {
            $file = "$this->folder/$name";
            if ($goes($file)) {
                $deleted += unlink($file) ? 1 : 0;
            }
        }
        return $deleted;
    }

    public function deleteAll(): int
    {
        return $this->deleteWhere(fn ($file) => true);
    }

    /** Deletes what was modified before TIME (epoch seconds). */
    public function deleteUntil(int $time): int
    {
        return $this->deleteWhere(fn ($file) => filemtime($file) < $time);
    }

    /** When there are more than MAX, the oldest go until there are MIN. */
    public function deleteByCapacity(int $min, int $max): int
    {
        $times = [];
        foreach ($this->names() as $name) {
            $times[$name] = filemtime("$this->folder/$name");
        }
        if (count($times) <= $max) {
            return 0;
        }
        ksort($times, SORT_STRING);
        asort($times); // stable: of two of one age the first name
        $old = array_slice(array_keys($times), 0, count($times) - $min);
        return array_sum(array_map(fn ($name) => (int) unlink("$this->folder/$name"), $old));
    }

    // The folder

    public function exists(): bool
    {
        clearstatcache();
        return is_dir($this->folder) && is_writable($this->folder);
    }

    public function create(): bool
    {
        return mkdir($this->folder);
    }

    public function drop(): bool
    {
        $this->deleteAll();
        return rmdir($this->folder);
    }

    /** Only the folder, whatever is in it. */
    public function remove(): bool
    {
        return rmdir($this->folder);
    }

    /** Health: a probe is written, read back and, unless LEAVE, removed. */
    public function probe(bool $leave = false): string
    {
        if (!$this->exists()) {
            return "OFFLINE";
        }
        $file = "$this->folder/" . self::PROBE;
        $text = "probe " . getmypid();
        if (!file_put_contents($file, $text) || file_get_contents($file) !== $text) {
            return "UNRESPONSIVE";
        }
        if ($leave) {
            file_put_contents($file, "left");
        } else {
            unlink($file);
        }
        return "ONLINE";
    }

    /** Makes a schema of FOLDER that has everything of this one. */
    public function plugIn(string $folder): int
    {
        $copied = 0;
        mkdir($folder);
        foreach ($this->names() as $name) {
            $copied += copy("$this->folder/$name", "$folder/$name") ? 1 : 0;
            touch("$folder/$name", filemtime("$this->folder/$name"));
        }
        return $copied;
    }

    // What is not the client's, but other programs' that work on such folders

    public function touch(array $tags, int $time): bool
    {
        return touch($this->file($tags), $time);
    }

    public function age(array $tags): array
    {
        clearstatcache();
        $file = $this->existing($tags);
        return [filesize($file), filemtime($file), is_file($file), is_writable($file)];
    }

    /** The bytes as they are. */
    public function raw(array $tags): string
    {
        return file_get_contents($this->existing($tags));
    }

    /** A new text in a temporary file that is renamed over the old one. */
    public function replace(array $tags, mixed $value): bool
    {
        $temporary = tempnam($this->folder, "tmp");
        file_put_contents($temporary, json_encode($value, JSON_THROW_ON_ERROR));
        chmod($temporary, 0644); // an item's on the mount, whatever its temporary file had
        return rename($temporary, $this->file($tags));
    }

    public function rename(array $tags, array $to): bool
    {
        return rename($this->existing($tags), $this->file($to));
    }
}
