import CYaml
import Foundation
import Yams

/// A YAML text by a person, bounded before Yams builds it: Yams calls itself for each level, so that a few
/// hundred of them end the program.
enum YAMLText {
    /// The deepest of our files, a hosts file, has four.
    static let levelsMax = 16

    /// Why the text cannot be used.
    struct Fault: Error, CustomStringConvertible {
        /// Where, counted from 1, if that is known.
        var line: Int?
        /// One line, which quotes at most a key.
        let description: String
    }

    /// The tree of the text's one document; nil without one.
    static func tree(of text: String) throws(Fault) -> Node? {
        if let fault = excess(in: Array(text.utf8)) { throw fault }
        do {
            return try Yams.compose(yaml: text, .basic)
        } catch {
            throw fault(error)
        }
    }

    /// Too many levels, or an alias: some of them that name each other make a small text a tree without end. Nil
    /// for a text without either, and for one that is no YAML: Yams says why, and goes no deeper.
    private static func excess(in text: [UInt8]) -> Fault? {
        // The parser holds its own address.
        let parser = UnsafeMutablePointer<yaml_parser_t>.allocate(capacity: 1)
        defer { parser.deallocate() }
        guard yaml_parser_initialize(parser) == 1 else { return Fault(description: "no memory") }
        defer { yaml_parser_delete(parser) }
        return text.withUnsafeBufferPointer { bytes in
            yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING)
            yaml_parser_set_input_string(parser, bytes.baseAddress, bytes.count)
            var levels = 0
            while true {
                var event = yaml_event_t()
                guard yaml_parser_parse(parser, &event) == 1 else { return nil }
                defer { yaml_event_delete(&event) }
                let line = Int(event.start_mark.line) + 1
                switch event.type {
                case YAML_SEQUENCE_START_EVENT, YAML_MAPPING_START_EVENT:
                    levels += 1
                    guard levels <= levelsMax else {
                        return Fault(
                            line: line, description: "more than \(levelsMax) levels in each other")
                    }
                case YAML_SEQUENCE_END_EVENT, YAML_MAPPING_END_EVENT: levels -= 1
                case YAML_ALIAS_EVENT:
                    return Fault(
                        line: line, description: "an alias (`*…`) is not taken; write it out")
                case YAML_STREAM_END_EVENT: return nil
                default: break
                }
            }
        }
    }

    private static func fault(_ error: any Error) -> Fault {
        switch error as? YamlError {
        case .scanner(let context, let problem, let mark, _),
            .parser(let context, let problem, let mark, _),
            .composer(let context, let problem, let mark, _):
            Fault(
                line: mark.line,
                description: "it is not valid YAML: "
                    + [context?.text, problem].compactMap(\.self).joined(separator: ", "))
        case .duplicatedKeysInMapping(let keys, let context):
            Fault(
                line: context.mark.line,
                description: "the key `\(Printable.line(String((keys.first ?? "").prefix(40))))` "
                    + "stands here, and once more in the same section")
        default: Fault(description: "it is not valid YAML")
        }
    }
}

extension Node {
    /// Whether nothing stands behind the key, as when all that belongs to it is a comment.
    var isNothing: Bool { scalar.map { NSNull.construct(from: $0) != nil } ?? false }

    /// Whether it is a list of single values.
    var isListOfTexts: Bool { sequence?.allSatisfy { $0.scalar != nil } ?? false }
}
