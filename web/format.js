// format: numbers, times and quantities as people read them.

const FACTORS = /** @type {Record<string, number>} */ ({
    m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, Ki: 1024, Mi: 1024 ** 2, Gi: 1024 ** 3, Ti: 1024 ** 4,
});

/**
 * The number of a Kubernetes quantity: "500m" is 0.5.
 * @param {any} text
 * @returns {number}
 */
export function quantity(text) {
    if (typeof text === "number")
        return text;
    const match = /^(-?[\d.]+(?:e[+-]?\d+)?)(m|k|M|G|T|Ki|Mi|Gi|Ti)?$/.exec(text ?? "");
    return match ? Number(match[1]) * (match[2] ? FACTORS[match[2]] : 1) : 0;
}

/** @param {number} value */
export function amount(value) {
    if (value < 0)
        return "unlimited";
    return Number.isInteger(value) ? String(value) : value.toFixed(2).replace(/0$/, "");
}

/** @param {number} bytes */
export function bytes(bytes) {
    for (const [unit, size] of /** @type {[string, number][]} */ ([["TiB", 1024 ** 4], ["GiB", 1024 ** 3], ["MiB", 1024 ** 2]]))
        if (bytes >= size)
            return `${(bytes / size).toFixed(bytes / size < 10 ? 1 : 0)} ${unit}`;
    return `${bytes} bytes`;
}

/** @param {number} ms */
export function duration(ms) {
    const seconds = Math.max(0, Math.round(ms / 1000));
    if (seconds < 60)
        return `${seconds} s`;
    if (seconds < 3600)
        return `${Math.floor(seconds / 60)} min`;
    if (seconds < 86400)
        return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds % 3600 / 60)} min`;
    return `${Math.floor(seconds / 86400)} d ${Math.floor(seconds % 86400 / 3600)} h`;
}

/** @param {string | undefined} text */
export const time = text => text ? Date.parse(text) : 0;

/**
 * @param {number} count
 * @param {string} one
 * @param {string} [many]
 */
export const plural = (count, one, many) => `${count} ${count === 1 ? one : many ?? one + "s"}`;

/** @param {number} ms */
export const clock = ms => new Date(ms).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
