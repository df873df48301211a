import OfflineQueue

/// Delivery into a Cloud Firestore, under the same user: one commit a batch, all of which is written or nothing.
extension FirebaseDestination {
    func commit(_ points: [OutgoingPoint], alone: Bool) async -> DeliveryAnswer {
        let sent = await commit(count: points.count) { documents in
            for point in points { documents.write(point) }
        }
        switch sent {
        case .stopped(let answer): return answer
        case .answered(let answer, let meaning):
            return meaning.delivery(
                of: answer, count: points.count, isAlone: alone && points.count == 1,
                words: kind.words(of: answer))
        }
    }

    func commit(ledger entries: [LedgerEntry]) async -> LedgerAnswer {
        let sent = await commit(count: entries.count) { documents in
            for entry in entries { documents.write(entry) }
        }
        switch sent {
        case .answered(_, .stored): return .stored
        case .answered(_, .tooLarge), .stopped(.unanswered): return .tooMany(fault ?? "no answer")
        case .answered, .stopped: return .failed(fault ?? "no answer")
        }
    }

    private func commit(
        count: Int, _ write: (inout FirestoreDocuments) -> Void
    ) async -> Sent {
        let sent = await send { [kind] user in
            var documents = FirestoreDocuments(database: kind.databaseName, user: user)
            write(&documents)
            return kind.commit(documents.commit)
        }
        // All of it is written if it says so of each write.
        if case .answered(let answer, .stored) = sent,
            FirebaseKind.writes(in: answer.body) != count
        {
            return .answered(answer, .unclear)
        }
        return sent
    }

    /// Asks for a document of the user's own. It is there or not; the answer says whether the user may look.
    func list() async -> Sent {
        await send { [kind] user in
            HTTPRequest(
                .get, kind.url.origin,
                "\(kind.url.path)/documents/users/\(user)/heartRate?pageSize=1&mask.fieldPaths=end")
        }
    }

    /// Writes a document below the user, and deletes it.
    func tryCommit() async -> Sent {
        func trial(ends: Bool) async -> Sent {
            await send { [kind] user in
                kind.commit(
                    FirestoreDocuments.trial(
                        database: kind.databaseName, user: user, ends: ends))
            }
        }
        let sent = await trial(ends: false)
        if case .answered(_, .stored) = sent { return await trial(ends: true) }
        return sent
    }
}
